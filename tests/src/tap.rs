//! Clients of taps: of the Tap API, and of `/tap` of an admin server.

use crate::{Channel, Http2, soon};
use linkerd_api_proto::tap::{
    ObserveRequest, TapEvent,
    observe_request::{Match, r#match},
    tap_client::TapClient,
};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};
use tonic::{Status, Streaming};

/// A client of the Tap API.
#[derive(Clone)]
pub struct TapApi(TapClient<Channel>);

impl TapApi {
    /// Over a connection to the server, or to a proxy that routes to it by `name`.
    pub fn new(http2: Http2, name: &str) -> Self {
        let origin = format!("http://{name}/").parse().unwrap();
        Self(TapClient::with_origin(Channel(http2), origin))
    }

    /// Opens a tap.
    pub async fn observe(&self, request: ObserveRequest) -> Result<Streaming<TapEvent>, Status> {
        let mut client = self.0.clone();
        Ok(soon(client.observe(request)).await?.into_inner())
    }
}

/// A tap of any `limit` requests.
pub fn any_request(limit: u32) -> ObserveRequest {
    let all = r#match::Seq { matches: vec![] };
    ObserveRequest {
        limit,
        r#match: Some(Match {
            r#match: Some(r#match::Match::All(all)),
        }),
        extract: None,
    }
}

/// A stream of `/tap`. Reads only on demand.
pub struct AdminTap(BufReader<TcpStream>);

impl AdminTap {
    /// Opens a tap by these parameters, and reads the head of the response.
    pub async fn open(admin: SocketAddr, parameters: &str) -> Self {
        let mut stream = soon(TcpStream::connect(admin)).await.unwrap();
        let request = format!("GET /tap?{parameters} HTTP/1.1\r\nhost: {admin}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut tap = Self(BufReader::new(stream));
        let status = tap.text().await.unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK");
        tap
    }

    /// The next event; `None` after the last one.
    pub async fn event(&mut self) -> Option<Value> {
        loop {
            // Between the events are heads and chunk sizes of HTTP.
            let line = self.text().await?;
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }

    async fn text(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = soon(self.0.read_line(&mut line)).await.unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }
}
