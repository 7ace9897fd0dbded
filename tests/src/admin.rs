//! A proxy's admin server.

use crate::{Http1, Metrics, Reply, body, empty, soon};
use flate2::read::GzDecoder;
use http::{Method, Request};
use serde_json::Value;
use std::{io::Read, net::SocketAddr};

/// A client of a proxy's admin server.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    /// The address.
    pub addr: SocketAddr,
}

impl Admin {
    /// Gets a path.
    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, "").await
    }

    /// Makes a request over a new connection.
    pub async fn request(&self, method: Method, path: &str, text: &'static str) -> Reply {
        let body = if text.is_empty() { empty() } else { body(text) };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.addr))
            .body(body)
            .unwrap();
        let client = Http1::connect(self.addr).await;
        soon(client.host_form().send(request)).await.unwrap()
    }

    /// Scrapes the metrics.
    pub async fn metrics(&self) -> Metrics {
        let reply = self.get("/metrics").await;
        assert_eq!(reply.status, 200);
        Metrics::parse(reply.text().to_owned())
    }

    /// Scrapes the metrics as Prometheus does.
    pub async fn gzipped_metrics(&self) -> Metrics {
        let request = Request::builder()
            .uri(format!("http://{}/metrics", self.addr))
            .header("accept-encoding", "gzip")
            .body(empty())
            .unwrap();
        let client = Http1::connect(self.addr).await;
        let reply = soon(client.host_form().send(request)).await.unwrap();
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let mut text = String::new();
        GzDecoder::new(&*reply.body)
            .read_to_string(&mut text)
            .unwrap();
        Metrics::parse(text)
    }

    /// The document of `/state`.
    pub async fn state(&self) -> Value {
        let reply = self.get("/state").await;
        assert_eq!(reply.status, 200);
        serde_json::from_slice(&reply.body).unwrap()
    }
}
