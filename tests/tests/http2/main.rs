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

use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{Mesh, Tcp};

/// A mesh whose service `web` is this server, over HTTP/2 for clients of any version.
async fn mesh_of(server: &Tcp) -> Mesh {
    let mesh = Mesh::start().await;
    let endpoint = Endpoint::new(server.addr()).h2();
    mesh.service("web", []).set(EndpointSet::new([endpoint]));
    mesh
}
