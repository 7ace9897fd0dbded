//! Endpoints that answer an upload early, and close.

use super::frames::{END_HEADERS, END_STREAM, HEADERS, begin, frame, next_request};
use bytes::Bytes;
use http::Method;
use linkerd_tests::{Mesh, Tcp, body, request, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn the_answer_of_an_endpoint_that_closes_during_an_upload_arrives() {
    let endpoint = Tcp::start(|mut socket| async move {
        let _ = begin(&mut socket).await;
        let Ok(stream) = next_request(&mut socket).await else {
            return;
        };
        let _ = socket.read(&mut [0; 1024]).await;
        let answer = frame(HEADERS, END_HEADERS | END_STREAM, stream, &[STATUS_400]);
        let _ = socket.write_all(&answer).await;
    })
    .await;
    for _ in 0..5 {
        let mesh = Mesh::start().await;
        mesh.service("web", [endpoint.addr()]);
        let client = mesh.http2().await;
        let upload = body(Bytes::from(vec![b'x'; 1 << 20]));
        let answer = client.start(request(Method::POST, "http://web/", upload));
        let answer = soon(answer).await.unwrap();
        assert_eq!(answer.status(), 400, "{answer:?}");
    }
}

/// The field `:status: 400` (RFC 7541, appendix A).
const STATUS_400: u8 = 0x8c;
