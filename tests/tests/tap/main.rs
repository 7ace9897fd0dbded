//! Taps of the built binary: the Tap API with its one client, `/tap` of the admin server, and the command `tap`.

#![allow(clippy::unwrap_used, missing_docs)]

mod admin;
mod api;
mod command;

use linkerd_tests::{Http1, get};
use std::net::SocketAddr;
use tokio::task::JoinHandle;

/// Requests, one after the other, until the value is dropped: workers learn of a tap shortly after its client does.
struct Requests(JoinHandle<()>);

impl Requests {
    fn start(proxy: SocketAddr, uri: &'static str) -> Self {
        Self(tokio::spawn(async move {
            let mut client = Http1::connect(proxy).await;
            loop {
                let mut request = get(uri);
                let secret = "Bearer hidden".parse().unwrap();
                request.headers_mut().insert("authorization", secret);
                let tenant = "seven".parse().unwrap();
                request.headers_mut().insert("x-tenant", tenant);
                // A failure of the proxy ends the connection.
                if client.send(request).await.is_err() {
                    client = Http1::connect(proxy).await;
                }
            }
        }))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.0.abort();
    }
}
