//! An application that sends requests.

use super::TestResponse;
use ::http::{Request, Response};
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{http::LocalExec, task::spawn_local};
use tokio::io::DuplexStream;

/// An application's connection.
pub enum TestClient {
    /// It speaks HTTP/1.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// It speaks HTTP/2.
    Http2(http2::SendRequest<Full<Bytes>>),
}

type Sent = LocalBoxFuture<'static, hyper::Result<Response<Incoming>>>;

impl TestClient {
    /// Speaks HTTP/1 over a stream.
    pub async fn http1(stream: DuplexStream) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        spawn_local(connection);
        Self::Http1(sender)
    }

    /// Speaks HTTP/2 over a stream.
    pub async fn http2(stream: DuplexStream) -> Self {
        let handshake = http2::handshake(LocalExec, TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        spawn_local(connection);
        Self::Http2(sender)
    }

    /// Sends a request; its response is a task, which need not be awaited for it to be sent.
    pub async fn send(&mut self, path: &str, body: &'static str) -> Sent {
        let uri = format!("http://test.example{path}");
        let request = Request::post(uri).header("host", "test.example");
        self.send_request(request.body(Full::from(body)).unwrap())
            .await
    }

    /// Sends a request as it is.
    pub async fn send_request(&mut self, request: Request<Full<Bytes>>) -> Sent {
        let sent: Sent = match self {
            Self::Http1(sender) => {
                sender.ready().await.unwrap();
                Box::pin(sender.send_request(request))
            }
            Self::Http2(sender) => {
                sender.ready().await.unwrap();
                Box::pin(sender.send_request(request))
            }
        };
        let sent = spawn_local(sent);
        Box::pin(async { sent.await.expect("the task does not panic") })
    }

    /// Sends a request, and reads its response.
    pub async fn post(&mut self, path: &str, body: &'static str) -> TestResponse {
        TestResponse::read(self.send(path, body).await.await.unwrap()).await
    }

    /// Sends a request without a body, and reads its response.
    pub async fn get(&mut self, path: &str) -> TestResponse {
        self.post(path, "").await
    }

    /// Whether the proxy has closed the connection.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }
}

impl TestResponse {
    /// Reads a response to its end.
    pub async fn read(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await;
        Self {
            head,
            body: body
                .map(|body| String::from_utf8(body.to_bytes().into()).unwrap())
                .ok(),
        }
    }
}
