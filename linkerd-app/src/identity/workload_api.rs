//! Calls to a workload API over its Unix socket.
//!
//! - **Bounds**: one connection for each call, which ends with it.

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, Uri, uri};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::{http::LocalExec, limits, task::spawn_local};
use std::{
    io,
    path::PathBuf,
    task::{Context, Poll},
};
use tokio::net::UnixStream;
use tonic::body::Body;
use tower_service::Service;

/// A workload API at a Unix socket. Must be called on the control thread.
#[derive(Clone, Debug)]
pub struct WorkloadApi {
    /// The path of the socket.
    pub socket: PathBuf,
}

/// Errors of a call.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadApiError {
    /// The socket does not accept a connection.
    #[error("the socket cannot be connected to: {0}")]
    Connect(#[from] io::Error),
    /// The connection fails.
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

impl Service<Request<Body>> for WorkloadApi {
    type Response = Response<Incoming>;
    type Error = WorkloadApiError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, WorkloadApiError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), WorkloadApiError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let socket = self.socket.clone();
        async move {
            let stream = TokioIo::new(UnixStream::connect(&socket).await?);
            let mut http2 = http2::Builder::new(LocalExec);
            http2
                .initial_stream_window_size(limits::HTTP2_STREAM_WINDOW)
                .initial_connection_window_size(limits::HTTP2_CLIENT_CONNECTION_WINDOW)
                .max_header_list_size(limits::HTTP2_CLIENT_HEADER_LIST);
            let (mut calls, connection) = http2.handshake(stream).await?;
            // The connection ends with the call, and has the same error.
            spawn_local(connection.map(drop));
            *request.uri_mut() = address(request.uri());
            Ok(calls.send_request(request).await?)
        }
        .boxed()
    }
}

/// The path of a call with the scheme and the authority that HTTP/2 asks for.
fn address(path: &Uri) -> Uri {
    let mut parts = path.clone().into_parts();
    parts.scheme = Some(uri::Scheme::HTTP);
    parts.authority = Some(uri::Authority::from_static("localhost"));
    Uri::from_parts(parts).expect("a gRPC call has a path")
}
