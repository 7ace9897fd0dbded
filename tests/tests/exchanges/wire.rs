//! Messages of HTTP/1 as bytes, read incrementally.

use crate::body::Body;
use bytes::{Buf, BytesMut};
use std::{io::ErrorKind, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A head: the first line, and the fields with names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub first: String,
    pub fields: Vec<(String, String)>,
}

/// The cause of an early end of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The peer closed.
    Closed,
    /// The connection failed.
    Reset,
    /// The limit of bytes was reached.
    Limit,
    /// An invalid byte.
    Wrong(String),
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimited {
    Length(u64),
    Chunked,
    Closed,
}

/// Reads messages.
pub struct Source<R> {
    io: R,
    buf: BytesMut,
    /// Remaining bytes to read.
    limit: Option<usize>,
    slow: bool,
}

impl<R: AsyncRead + Unpin> Source<R> {
    pub fn new(io: R, slow: bool) -> Self {
        Self {
            io,
            buf: BytesMut::new(),
            limit: None,
            slow,
        }
    }

    /// Stops after this many bytes from here.
    pub fn limit(&mut self, limit: usize) {
        self.limit = Some(limit);
        self.buf.truncate(limit);
        self.spend(self.buf.len());
    }

    /// Bytes that were read and not consumed.
    pub fn unused(&self) -> &[u8] {
        &self.buf
    }

    /// The next head; `None` if the peer closed before it.
    pub async fn head(&mut self) -> Result<Option<Head>, Stop> {
        loop {
            if let Some(end) = find(&self.buf, b"\r\n\r\n") {
                let bytes = self.buf.split_to(end + 4);
                return Head::parse(&bytes).map(Some);
            }
            match self.fill().await {
                Err(Stop::Closed) if self.buf.is_empty() => return Ok(None),
                filled => filled?,
            }
        }
    }

    /// Reads a body up to `most` bytes and checks it; returns the trailers at its end.
    pub async fn body(&mut self, reader: &mut BodyReader, most: u64) -> Result<Option<Head>, Stop> {
        while reader.offset < most {
            match reader.left {
                Left::Bytes(0) if reader.delimited == Delimited::Chunked => {
                    let line = self.line().await?;
                    let size = line.split(';').next().unwrap_or_default();
                    let size = u64::from_str_radix(size, 16);
                    match size.map_err(|_| Stop::Wrong(format!("no chunk size: {line:?}")))? {
                        0 => return self.trailers().await.map(Some),
                        size => reader.left = Left::Bytes(size),
                    }
                }
                Left::Bytes(0) => return Ok(Some(Head::default())),
                _ => {
                    if self.buf.is_empty() {
                        match (self.fill().await, reader.delimited) {
                            (Err(Stop::Closed), Delimited::Closed) => {
                                return Ok(Some(Head::default()));
                            }
                            (filled, _) => filled?,
                        }
                    }
                    self.take(reader, most).await?;
                }
            }
        }
        Ok(None)
    }

    async fn take(&mut self, reader: &mut BodyReader, most: u64) -> Result<(), Stop> {
        let most = (most - reader.offset).min(self.buf.len() as u64);
        let count = match reader.left {
            Left::Bytes(left) => most.min(left),
            Left::All => most,
        };
        let bytes = self.buf.split_to(count as usize);
        match reader.body {
            Some(body) => body.check(reader.offset, &bytes).map_err(Stop::Wrong)?,
            None => reader.other.extend_from_slice(&bytes),
        }
        reader.offset += count;
        if let Left::Bytes(left) = &mut reader.left {
            *left -= count;
            if *left == 0 && reader.delimited == Delimited::Chunked {
                let line = self.line().await?;
                if !line.is_empty() {
                    return Err(Stop::Wrong(format!("after a chunk: {line:?}")));
                }
            }
        }
        Ok(())
    }

    async fn trailers(&mut self) -> Result<Head, Stop> {
        let mut fields = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                let first = String::new();
                return Ok(Head { first, fields });
            }
            fields.push(field(&line)?);
        }
    }

    async fn line(&mut self) -> Result<String, Stop> {
        loop {
            if let Some(end) = find(&self.buf, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buf[..end]).into_owned();
                self.buf.advance(end + 2);
                return Ok(line);
            }
            if self.buf.len() > 1_000 {
                let start = String::from_utf8_lossy(&self.buf[..100]).into_owned();
                return Err(Stop::Wrong(format!("no line: {start:?}")));
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes.
    pub async fn fill(&mut self) -> Result<(), Stop> {
        if self.limit == Some(0) {
            return Err(Stop::Limit);
        }
        let most = if self.slow { 4_000 } else { 16 * 1024 };
        let most = most.min(self.limit.unwrap_or(usize::MAX));
        if self.slow {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Without room a read would take 64 bytes, and a minute for what should take a tenth of a second.
        self.buf.reserve(most);
        match (&mut self.io)
            .take(most as u64)
            .read_buf(&mut self.buf)
            .await
        {
            Ok(0) => Err(Stop::Closed),
            Ok(count) => {
                self.spend(count);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(Stop::Closed),
            Err(_) => Err(Stop::Reset),
        }
    }

    fn spend(&mut self, count: usize) {
        if let Some(limit) = &mut self.limit {
            *limit -= count;
        }
    }
}

/// Progress in a body.
#[derive(Clone, Debug)]
pub struct BodyReader {
    /// The expected body; anything if `None`.
    body: Option<Body>,
    /// The bytes of a body without an expectation.
    pub other: Vec<u8>,
    delimited: Delimited,
    left: Left,
    /// Bytes that were read.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Remaining bytes of the body, or of its current chunk.
    Bytes(u64),
    All,
}

impl BodyReader {
    pub fn new(body: Option<Body>, delimited: Delimited) -> Self {
        let left = match delimited {
            Delimited::Length(length) => Left::Bytes(length),
            Delimited::Chunked => Left::Bytes(0),
            Delimited::Closed => Left::All,
        };
        Self {
            body,
            other: Vec::new(),
            delimited,
            left,
            offset: 0,
        }
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, Stop> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let fields = lines.map(field).collect::<Result<_, _>>()?;
        let head = Self { first, fields };
        let versioned = head.words().any(|word| word.starts_with("HTTP/1."));
        match versioned {
            true => Ok(head),
            false => Err(Stop::Wrong(format!("no head: {text:?}"))),
        }
    }

    /// The words of the first line.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.first.split(' ')
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The number in a field.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// Whether the connection ends with the message.
    pub fn closes(&self) -> bool {
        let value = self.field("connection").unwrap_or_default();
        value.to_ascii_lowercase().contains("close")
    }

    /// The framing of this message's body, if it has one.
    pub fn delimited(&self, otherwise: Delimited) -> Delimited {
        match self.field("transfer-encoding") {
            Some(_) => Delimited::Chunked,
            None => self
                .number("content-length")
                .map_or(otherwise, Delimited::Length),
        }
    }
}

fn field(line: &str) -> Result<(String, String), Stop> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(Stop::Wrong(format!("no field: {line:?}")));
    };
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|found| found == what)
}

/// A body on the wire, chunked or not.
pub fn encode(body: Body, length: usize, chunk: usize, chunked: bool, trailers: &str) -> Vec<u8> {
    let bytes = body.piece(0, length);
    if !chunked {
        return bytes;
    }
    let mut encoded = Vec::with_capacity(length + 64);
    for piece in bytes.chunks(chunk) {
        encoded.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        encoded.extend_from_slice(piece);
        encoded.extend_from_slice(b"\r\n");
    }
    encoded.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    encoded
}
