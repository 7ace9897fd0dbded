//! A minimal HTTP/1 client.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{BoxError, task::spawn_local};
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpStream;

/// A connection for one request after another.
pub(super) struct Client(SendRequest<Empty<Bytes>>);

/// A complete response.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Client {
    pub(super) async fn connect(addr: SocketAddr) -> Result<Self, BoxError> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection ends when the client is dropped; the client sees its errors.
        spawn_local(connection);
        Ok(Self(client))
    }

    /// Sends a request with the URI unchanged: an absolute one stays absolute, as a proxy needs it.
    pub(super) async fn get(&mut self, uri: &Uri, host: &str) -> Result<Answer, BoxError> {
        let request = Request::get(uri)
            .header(header::HOST, host)
            .body(Empty::new())?;
        self.0.ready().await?;
        let (head, body) = self.0.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// One request on a new connection.
pub(super) async fn once(
    addr: SocketAddr,
    path: &str,
    within: Duration,
) -> Result<Answer, BoxError> {
    let fetch = async {
        let mut client = Client::connect(addr).await?;
        client.get(&path.parse()?, &addr.to_string()).await
    };
    tokio::time::timeout(within, fetch).await?
}

const MAX_BODY: usize = 16 * 1024 * 1024;
