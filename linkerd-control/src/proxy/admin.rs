//! Requests to the admin server of a proxy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Gets a path: the status and the body, or the reason of the failure. HTTP/1.0: the body ends with the connection.
pub(super) async fn get(admin: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let answer = tokio::time::timeout(TIMEOUT, exchange(admin, path)).await;
    let answer = answer.map_err(|_| format!("no answer within {TIMEOUT:?}"))?;
    let answer = answer.map_err(|error| error.to_string())?;
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    });
    parts.ok_or_else(|| "the answer is not HTTP".to_owned())
}

async fn exchange(admin: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {admin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Long for any answer of a local process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The state of a proxy with some 10,000 endpoints has a few megabytes.
const MAX_ANSWER: u64 = 64 << 20;
