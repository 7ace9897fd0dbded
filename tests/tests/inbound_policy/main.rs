//! Policies of inbound ports, sent by a control plane to a proxy to which peers are redirected.

#![allow(clippy::unwrap_used, missing_docs)]

mod connections;
mod departures;
mod mesh_file;
mod readings;
mod requests;
mod watches;

use linkerd_control::{Authorization, ServerPolicy};
use linkerd_tests::{
    Http1, Reply, Server,
    netns::{POD, Pod},
    reply, soon,
};
use std::net::{Ipv4Addr, SocketAddr};

/// An application of the pod.
async fn application() -> Server {
    let builder = Server::builder().at(SocketAddr::from((POD, 0)));
    builder.start(|_| async { reply("hello") }).await
}

/// A connection of a peer to the application.
async fn peer(application: SocketAddr) -> Http1 {
    Http1::connect(application).await.host_form()
}

async fn get(peer: &mut Http1, path: &str) -> Reply {
    peer.get(&format!("http://app{path}")).await.unwrap()
}

/// Sends requests over an open connection until one has this status.
async fn until_status(peer: &mut Http1, path: &str, status: u16) {
    soon(async { while get(peer, path).await.status != status {} }).await;
}

/// A policy that admits all clients.
fn open(name: &str) -> ServerPolicy {
    ServerPolicy::new(name).authorize(Authorization::all("all"))
}

/// An authorization of a network without any client of a test.
fn elsewhere() -> Authorization {
    Authorization::of_networks("elsewhere", [(Ipv4Addr::new(192, 0, 2, 0), 24)])
}

/// The port of an application.
fn port_of(server: &Server) -> u16 {
    server.addr().port()
}

/// A pod whose proxy watches this port from the start.
async fn pod_watching(port: u16) -> Pod {
    Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)).await
}
