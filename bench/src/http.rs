//! A minimal HTTP/1 client, which costs the machine little and has no hidden work.

use crate::error::{Context, Error, Result};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    time::Duration,
};

/// A keep-alive connection.
pub struct Client<S = TcpStream> {
    stream: S,
    request: Vec<u8>,
    buf: Vec<u8>,
}

impl Client {
    /// Connects; each exchange is a GET of `path`.
    pub fn connect(addr: SocketAddr, path: &str) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, TIMEOUT).context("connect")?;
        Ok(Self::over(prepared(stream)?, addr, path))
    }

    /// Connects from an address, which has its own ports.
    pub fn connect_from(source: IpAddr, addr: SocketAddr, path: &str) -> Result<Self> {
        Ok(Self::over(stream_from(source, addr)?, addr, path))
    }
}

impl<S: Read + Write> Client<S> {
    /// A client over a connection.
    pub fn over(stream: S, addr: SocketAddr, path: &str) -> Self {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\n\r\n").into_bytes();
        Self {
            stream,
            request,
            buf: vec![0; BUFFER],
        }
    }

    /// Uses a larger buffer: fewer reads leave more of their core to the backend.
    #[must_use]
    pub fn with_buffer(mut self, bytes: usize) -> Self {
        self.buf = vec![0; bytes.max(BUFFER)];
        self
    }

    /// Frees the buffer: an idle connection needs none.
    #[must_use]
    pub fn idle(mut self) -> Self {
        self.buf = Vec::new();
        self
    }

    /// Sends a request, reads the whole response, and returns the size of its body.
    pub fn exchange(&mut self) -> Result<u64> {
        self.stream.write_all(&self.request).context("send")?;
        let mut filled = 0;
        let (head, length) = loop {
            let count = self.stream.read(&mut self.buf[filled..]).context("read")?;
            filled += count;
            match parse_head(&self.buf[..filled])? {
                Some(found) => break found,
                None if count == 0 => {
                    let text = String::from_utf8_lossy(&self.buf[..filled]);
                    return Err(Error::unexpected("a response cut short", &text));
                }
                None => {}
            }
        };
        let mut left = length.saturating_sub((filled - head) as u64);
        while left > 0 {
            match self.stream.read(&mut self.buf).context("read")? {
                0 => return Err(Error::unexpected("a body cut short", "")),
                count => left = left.saturating_sub(count as u64),
            }
        }
        Ok(length)
    }
}

/// A connection from an address, which has its own ports.
pub fn stream_from(source: IpAddr, addr: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).context("socket")?;
    let source = SocketAddr::new(source, 0);
    socket.bind(&source.into()).context("bind")?;
    let connected = socket.connect_timeout(&addr.into(), TIMEOUT);
    connected.context("connect")?;
    prepared(socket.into())
}

fn prepared(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true).context("nodelay")?;
    stream.set_read_timeout(Some(TIMEOUT)).context("timeout")?;
    Ok(stream)
}

/// The body at a path, over a separate connection.
pub fn document(addr: SocketAddr, path: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT).context("connect")?;
    stream.set_read_timeout(Some(TIMEOUT)).context("timeout")?;
    // In HTTP/1.0 the body ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).context("send")?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).context("read")?;
    match body_of(&response) {
        Some(body) => Ok(response.split_off(body)),
        None => {
            let text = String::from_utf8_lossy(&response);
            Err(Error::unexpected("a document", &text))
        }
    }
}

/// The start of the body, if the response is complete and successful.
fn body_of(response: &[u8]) -> Option<usize> {
    let is_ok = response.starts_with(b"HTTP/1.0 200 ") || response.starts_with(b"HTTP/1.1 200 ");
    let head = response.windows(4).position(|window| window == b"\r\n\r\n");
    head.filter(|_| is_ok).map(|end| end + 4)
}

/// The size of the head and the length of the body, once the head is complete.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, u64)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match bytes.len() < BUFFER {
            true => Ok(None),
            false => Err(Error::unexpected("a head of this size", "")),
        };
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    if status != Some("200") {
        return Err(Error::unexpected("a response", &head));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| Error::unexpected("a response without a length", &head))?;
    Ok(Some((end + 4, length)))
}

/// Longer than any operation worth measuring.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head.
const BUFFER: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_understood_when_it_is_complete() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello, world";
        assert!(matches!(parse_head(response), Ok(Some((39, 12)))));
        assert!(matches!(parse_head(&response[..30]), Ok(None)));
    }

    #[test]
    fn a_document_begins_after_its_head() {
        assert_eq!(body_of(b"HTTP/1.0 200 OK\r\na: b\r\n\r\n{}"), Some(25));
        assert_eq!(body_of(b"HTTP/1.0 403 Forbidden\r\n\r\n"), None);
        assert_eq!(body_of(b"HTTP/1.0 200 OK\r\na: b"), None);
    }

    #[test]
    fn only_success_counts() {
        let response = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        assert!(parse_head(response).is_err());
    }
}
