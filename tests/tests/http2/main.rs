//! Behaviour of HTTP/2 and gRPC.

#![allow(clippy::unwrap_used, missing_docs)]

mod abandoned;
mod connections;
mod crossing;
mod cut_short;
mod early;
mod explicit;
mod frames;
mod grpc;
mod large_heads;
mod small_frames;
mod streaming;
mod streams;

use bytes::Bytes;
use futures::{StreamExt, stream};
use hyper::body::Frame;
use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{Body, Mesh, Tcp, chunks};

/// A mesh whose service `web` is this server, over HTTP/2 for clients of any version.
async fn mesh_of(server: &Tcp) -> Mesh {
    let mesh = Mesh::start().await;
    let endpoint = Endpoint::new(server.addr()).h2();
    mesh.service("web", []).set(EndpointSet::new([endpoint]));
    mesh
}

/// Messages of gRPC that are written one by one, each in a frame.
fn messages(count: usize) -> Body {
    chunks(stream::iter(0..count).then(|_| async {
        tokio::task::yield_now().await;
        Ok(Frame::data(Bytes::from_static(MESSAGE)))
    }))
}

const MESSAGE: &[u8] = b"\0\0\0\0\x05hello";
