//! The connection of a tap to the admin server of a proxy.

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::task::spawn_local;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A stream of lines.
pub(super) struct TapConnection {
    body: Incoming,
    read: BytesMut,
}

impl TapConnection {
    /// Opens a tap with these parameters.
    pub(super) async fn open(admin: SocketAddr, parameters: &str) -> Result<Self, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let stream = TcpStream::connect(admin).await;
        let stream = stream.map_err(|error| said(&error))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (mut client, connection) = shaken.map_err(|error| said(&error))?;
        // The client reports the errors of the connection.
        spawn_local(connection);
        let request = Request::get(format!("/tap?{parameters}"))
            .header(HOST, admin.to_string())
            .body(Empty::<Bytes>::new())
            .map_err(|error| said(&error))?;
        let response = client.send_request(request).await;
        let (head, body) = response.map_err(|error| said(&error))?.into_parts();
        if head.status == StatusCode::OK {
            let read = BytesMut::new();
            return Ok(Self { body, read });
        }
        let text = Limited::new(body, MAX_LINE).collect().await;
        let text = text.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8_lossy(&text);
        Err(format!("{} {}", head.status, text.trim()))
    }

    /// The next line. Cancel safe.
    pub(super) async fn line(&mut self) -> Result<Bytes, String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end).freeze();
                self.read.advance(1);
                return Ok(line);
            }
            if self.read.len() > MAX_LINE {
                return Err("it sent a line that is too long".to_owned());
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.read.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the connection is closed".to_owned()),
            }
        }
    }
}

/// An event with all headers has some 200 KB.
const MAX_LINE: usize = 4 << 20;
