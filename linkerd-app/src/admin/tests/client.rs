//! A client that writes given bytes and reads the response.

use serde_json::Value;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A response, read to the end of the connection.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).first().copied()
    }

    pub(super) fn headers(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(key, _)| key == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn kind(&self) -> Option<&str> {
        self.header("content-type")
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(super) async fn get(addr: SocketAddr, path: &str) -> Answer {
    request(addr, &format!("GET {path}"), "").await
}

/// Makes a request on a new connection. The head is a method, a path and, on further lines, headers.
pub(super) async fn request(
    addr: SocketAddr,
    head: impl AsRef<[u8]>,
    body: impl AsRef<[u8]>,
) -> Answer {
    let (head, body) = (head.as_ref(), body.as_ref());
    let line = head.iter().position(|b| *b == b'\r').unwrap_or(head.len());
    let mut bytes = [&head[..line], b" HTTP/1.1", &head[line..]].concat();
    let host = match head.windows(7).any(|part| part == b"\nhost: ") {
        true => "",
        false => "\r\nhost: localhost",
    };
    let length = format!(
        "{host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    bytes.extend([length.as_bytes(), body].concat());
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // A server that refuses a long body may close before all of it is written.
    let _ = stream.write_all(&bytes).await;
    read(&mut stream).await
}

/// Reads a response whose connection ends with it.
pub(super) async fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head ({ended:?}): {text:?}"));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    });
    let mut answer = Answer {
        status: status.parse().unwrap(),
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = whole(&answer.body);
    }
    answer
}

/// The body of a chunked response.
fn whole(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = chunks.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&chunks[..line]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[line + 2..][..length]);
        chunks = &chunks[line + 2 + length + 2..];
    }
}
