use super::{Reply, get};
use crate::{Body, BoxError, soon};
use http::{HeaderValue, Request, Response, Uri, header::HOST};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// A keep-alive HTTP/1 connection. By default, requests have absolute targets, as for proxies.
pub struct Http1 {
    send: http1::SendRequest<Body>,
    host_form: bool,
}

impl Http1 {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Self {
        let socket = soon(TcpStream::connect(addr)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket).await
    }

    /// Uses an open connection.
    pub async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (send, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        Self {
            send,
            host_form: false,
        }
    }

    /// Sends requests with a path and a `Host`, as for a server.
    #[must_use]
    pub fn host_form(mut self) -> Self {
        self.host_form = true;
        self
    }

    /// Gets a URI.
    pub async fn get(&mut self, uri: &str) -> Result<Reply, BoxError> {
        self.send(get(uri)).await
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, request: Request<Body>) -> Result<Reply, BoxError> {
        Reply::read(self.start(request).await?).await
    }

    /// Sends a request, and returns when the head of the response has arrived.
    pub async fn start(
        &mut self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, BoxError> {
        if !request.headers().contains_key(HOST)
            && let Some(authority) = request.uri().authority()
        {
            let host = HeaderValue::from_str(authority.as_str())?;
            request.headers_mut().insert(HOST, host);
        }
        if self.host_form && request.uri().scheme().is_some() {
            *request.uri_mut() = Uri::from(request.uri().path_and_query().unwrap().clone());
        }
        self.send.ready().await?;
        Ok(self.send.send_request(request).await?)
    }

    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        !self.send.is_closed()
    }
}
