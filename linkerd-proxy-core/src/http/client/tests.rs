//! A response that an endpoint wrote, for tests of bodies.

use crate::task::spawn_local;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The response with this text, over a connection that stays open. Must run where tasks may stay on their thread.
pub(in crate::http) async fn incoming(response: &str) -> Response<Incoming> {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let response = response.to_owned();
    spawn_local(async move {
        let mut request = [0; 1024];
        assert_ne!(server.read(&mut request).await.unwrap(), 0);
        server.write_all(response.as_bytes()).await.unwrap();
        // The connection ends when the client drops it.
        let _ = server.read(&mut request).await;
    });
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    spawn_local(connection);
    let request = Request::builder().header("te", "trailers");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    sender.send_request(request).await.unwrap()
}
