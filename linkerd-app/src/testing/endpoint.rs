//! An endpoint that answers requests.

use super::TestNetwork;
use ::http::{Request, Response};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, channel::mpsc, future::LocalBoxFuture};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{http::LocalExec, task::spawn_local};
use std::{cell::Cell, io, rc::Rc};
use tokio::task::JoinHandle;

/// An endpoint that listens until it is dropped.
pub struct TestEndpoint {
    requests: Rc<Cell<usize>>,
    listening: JoinHandle<()>,
}

/// A response, read to its end.
#[derive(Debug)]
pub struct TestResponse {
    /// Its status and headers.
    pub head: ::http::response::Parts,
    /// Its body; `None` if that broke off.
    pub body: Option<String>,
}

/// The body of a test's response.
pub type TestBody = UnsyncBoxBody<Bytes, io::Error>;
/// A response that is being made.
pub type Answered = LocalBoxFuture<'static, Response<TestBody>>;
type Handler = Rc<dyn Fn(Request<Incoming>) -> Answered>;

/// Writes the body of a response. Its error breaks it off.
pub type BodyWriter = mpsc::UnboundedSender<io::Result<&'static str>>;

impl TestEndpoint {
    /// Answers each request over HTTP/1 with a text.
    pub fn answering(network: &TestNetwork, addr: &str, text: &'static str) -> Self {
        Self::new(network, addr, false, move |_| {
            async move { Response::new(full(text)) }.boxed_local()
        })
    }

    /// Answers each request over HTTP/2 with its own body.
    pub fn echoing_http2(network: &TestNetwork, addr: &str) -> Self {
        Self::new(network, addr, true, |request| {
            let body = request.into_body().map_err(io::Error::other);
            async move { Response::new(body.boxed_unsync()) }.boxed_local()
        })
    }

    /// Hands the body of each response over HTTP/1 to the test.
    pub fn streaming(
        network: &TestNetwork,
        addr: &str,
    ) -> (Self, mpsc::UnboundedReceiver<BodyWriter>) {
        let (writers, bodies) = mpsc::unbounded();
        let endpoint = Self::new(network, addr, false, move |_| {
            let (writer, chunks) = mpsc::unbounded();
            writers.unbounded_send(writer).unwrap();
            let frames = chunks.map(|chunk: io::Result<&'static str>| {
                chunk.map(|chunk| Frame::data(Bytes::from_static(chunk.as_bytes())))
            });
            async move { Response::new(StreamBody::new(frames).boxed_unsync()) }.boxed_local()
        });
        (endpoint, bodies)
    }

    /// Answers each request by `handle`.
    pub fn new(
        network: &TestNetwork,
        addr: &str,
        is_http2: bool,
        handle: impl Fn(Request<Incoming>) -> Answered + 'static,
    ) -> Self {
        let requests = Rc::new(Cell::new(0));
        let count = requests.clone();
        let handler: Handler = Rc::new(move |request| {
            count.set(count.get() + 1);
            handle(request)
        });
        let mut accepting = network.listen(addr);
        let listening = spawn_local(async move {
            while let Some(stream) = accepting.recv().await {
                let handler = handler.clone();
                let service = service_fn(move |request| {
                    let answered = handler(request);
                    async { io::Result::Ok(answered.await) }
                });
                let stream = TokioIo::new(stream);
                if is_http2 {
                    spawn_local(http2::Builder::new(LocalExec).serve_connection(stream, service));
                } else {
                    spawn_local(http1::Builder::new().serve_connection(stream, service));
                }
            }
        });
        Self {
            requests,
            listening,
        }
    }

    /// The number of requests that it got.
    pub fn requests(&self) -> usize {
        self.requests.get()
    }
}

impl Drop for TestEndpoint {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// A response with a text.
pub fn text(text: impl Into<Bytes>) -> Response<TestBody> {
    Response::new(full(text))
}

fn full(text: impl Into<Bytes>) -> TestBody {
    Full::from(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}
