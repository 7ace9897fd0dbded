//! The backend of the comparison: `backend HTTP1_ADDR HTTP2_ADDR`.
//!
//! - `/bytes/N`: N bytes.
//! - `/echo`: the body of the request.
//! - `/grpc`: a message of 12 bytes and trailers, when the request's body is complete.
//! - `/stream/N`: N such messages, each in its own frame, and trailers, when the request's body is complete.
//! - anything else: 12 bytes, when the request's body is complete.

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Either, Full};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
    time::{Sleep, sleep},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone)]
struct LocalExec;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExec {
    fn execute(&self, task: F) {
        spawn_local(async move {
            task.await;
        });
    }
}

/// A number of bytes, and optional trailers.
struct Bytewise {
    left: u64,
    trailers: Option<HeaderMap>,
}

impl Body for Bytewise {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(self.trailers.take().map(|map| Ok(Frame::trailers(map))));
        }
        let mut chunk = Bytes::from_static(&ZEROS);
        chunk.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= chunk.remaining() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Messages of a gRPC stream, a few at a time, and trailers.
///
/// They are paced: h2 ends a connection on which more than about two thousand small frames wait to be read, as would
/// happen with a backend faster than the proxy.
struct Messages {
    left: u64,
    /// Messages left of the current group.
    together: u32,
    pause: Pin<Box<Sleep>>,
    trailers: Option<HeaderMap>,
}

impl Messages {
    fn new(count: u64) -> Self {
        Self {
            left: count,
            together: TOGETHER,
            pause: Box::pin(sleep(PAUSE)),
            trailers: Some(status_ok()),
        }
    }
}

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(self.trailers.take().map(|map| Ok(Frame::trailers(map))));
        }
        if self.together == 0 {
            ready!(self.pause.as_mut().poll(cx));
            let next = self.pause.deadline() + PAUSE;
            self.pause.as_mut().reset(next);
            self.together = TOGETHER;
        }
        self.together -= 1;
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(MESSAGE)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.trailers.is_none()
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>> {
    let path = request.uri().path();
    if let Some(count) = path.strip_prefix("/bytes/") {
        let body = Bytewise {
            left: count.parse()?,
            trailers: None,
        };
        return Ok(Response::new(Either::Right(Either::Left(body))));
    }
    if path == "/echo" {
        return Ok(Response::new(Either::Left(request.into_body())));
    }
    let is_grpc = path == "/grpc";
    let messages: Option<u64> = match path.strip_prefix("/stream/") {
        Some(count) => Some(count.parse()?),
        None => None,
    };
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    if is_grpc {
        let body = Bytewise {
            left: HELLO.len() as u64,
            trailers: Some(status_ok()),
        };
        return Ok(grpc(Either::Right(Either::Left(body))));
    }
    if let Some(count) = messages {
        let body = Either::Left(Messages::new(count));
        return Ok(grpc(Either::Right(Either::Right(body))));
    }
    let body = Either::Right(Full::new(Bytes::from_static(HELLO)));
    Ok(Response::new(Either::Right(Either::Right(body))))
}

type Answer = Either<Incoming, Either<Bytewise, Either<Messages, Full<Bytes>>>>;

fn grpc(body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The trailers of a successful call.
fn status_ok() -> HeaderMap {
    let name = HeaderName::from_static("grpc-status");
    [(name, HeaderValue::from_static("0"))]
        .into_iter()
        .collect()
}

async fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A disconnect of a client is no failure.
async fn serve1(listener: TcpListener) -> Result<()> {
    loop {
        let io = TokioIo::new(accept(&listener).await?);
        let connection = http1::Builder::new().serve_connection(io, service_fn(answer));
        spawn_local(async move { drop(connection.await) });
    }
}

async fn serve2(listener: TcpListener) -> Result<()> {
    loop {
        let io = TokioIo::new(accept(&listener).await?);
        let connection = http2::Builder::new(LocalExec)
            .timer(TokioTimer::new())
            .max_concurrent_streams(None)
            .serve_connection(io, service_fn(answer));
        spawn_local(async move { drop(connection.await) });
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [http1, http2] = &args[..] else {
        return Err("usage: backend HTTP1_ADDR HTTP2_ADDR".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let (http1, http2) = (
            TcpListener::bind(http1).await?,
            TcpListener::bind(http2).await?,
        );
        tokio::try_join!(serve1(http1), serve2(http2))?;
        Ok(())
    })
}

const HELLO: &[u8; 12] = b"hello, world";

/// A gRPC message with its prefix: not compressed, 12 bytes.
const MESSAGE: &[u8; 17] = b"\0\0\0\0\x0chello, world";

/// Messages of a group, which are sent at once.
const TOGETHER: u32 = 4;

/// Pause between groups. 160 streams make 80,000 messages each second.
const PAUSE: Duration = Duration::from_millis(8);

/// A source of bytes, large enough that bulk transfers cost the backend few writes.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
