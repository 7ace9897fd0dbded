use super::{Reply, get};
use crate::{Body, BoxError, soon};
use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// An HTTP/2 connection, with prior knowledge. Clones share it.
#[derive(Clone)]
pub struct Http2 {
    send: http2::SendRequest<Body>,
}

impl Http2 {
    /// Connects.
    pub async fn connect(addr: SocketAddr) -> Self {
        let socket = soon(TcpStream::connect(addr)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket).await
    }

    /// Connects, with so many bytes as the window of each stream.
    pub async fn with_window(addr: SocketAddr, window: u32) -> Self {
        let socket = soon(TcpStream::connect(addr)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let mut builder = builder();
        builder.initial_stream_window_size(window);
        Self::built(builder, socket).await
    }

    /// Uses an open connection.
    pub async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::built(builder(), io).await
    }

    async fn built(
        builder: http2::Builder<TokioExecutor>,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (send, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self { send }
    }

    /// Gets a URI.
    pub async fn get(&self, uri: &str) -> Result<Reply, BoxError> {
        self.send(get(uri)).await
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<Body>) -> Result<Reply, BoxError> {
        Reply::read(self.start(request).await?).await
    }

    /// Sends a request, and returns when the head of the response has arrived.
    pub async fn start(&self, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let mut send = self.send.clone();
        send.ready().await?;
        Ok(send.send_request(request).await?)
    }

    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        !self.send.is_closed()
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new());
    builder
}

/// The code of a reset stream.
pub fn reset_code(error: &BoxError) -> Option<h2::Reason> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = cause {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            return h2.reason();
        }
        cause = error.source();
    }
    None
}
