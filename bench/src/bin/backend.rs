//! The backend of the comparison: `backend HTTP1_ADDR HTTP2_ADDR`.
//!
//! - `/bytes/N`: N bytes.
//! - `/echo`: the body of the request.
//! - `/grpc`: a message of 12 bytes and trailers, when the request's body is complete.
//! - anything else: 12 bytes, when the request's body is complete.

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Either, Full};
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    header::{HeaderName, HeaderValue},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
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

/// A number of bytes, and perhaps trailers.
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
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    if is_grpc {
        let status = (
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        );
        let body = Bytewise {
            left: HELLO.len() as u64,
            trailers: Some([status].into_iter().collect()),
        };
        let response = Response::builder()
            .header("content-type", HeaderValue::from_static("application/grpc"));
        return Ok(response.body(Either::Right(Either::Left(body)))?);
    }
    let body = Full::new(Bytes::from_static(HELLO));
    Ok(Response::new(Either::Right(Either::Right(body))))
}

type Answer = Either<Incoming, Either<Bytewise, Full<Bytes>>>;

async fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A client that leaves is no failure.
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

/// Large enough that bulk transfers cost the backend few writes.
static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
