//! Responses that an HTTP/2 endpoint ends early, without an error code.

use super::mesh_of;
use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::Response;
use linkerd_tests::{Mesh, Tcp};

/// An endpoint that reads a request, sends three bytes of a response and resets its stream with `NO_ERROR`.
async fn quitter(length: Option<usize>) -> (Mesh, Tcp) {
    let server = Tcp::start(move |socket| async move {
        let mut connection = h2::server::handshake(socket).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            tokio::spawn(async move {
                read(request.into_body()).await;
                let mut head = Response::builder();
                if let Some(length) = length {
                    head = head.header("content-length", length);
                }
                let head = head.body(()).unwrap();
                let mut body = respond.send_response(head, false).unwrap();
                body.send_data(Bytes::from_static(b"par"), false).unwrap();
                // After the data.
                tokio::task::yield_now().await;
                body.send_reset(Reason::NO_ERROR);
            });
        }
    })
    .await;
    (mesh_of(&server).await, server)
}

async fn read(mut body: RecvStream) {
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_ends_with_no_error_before_its_end_is_no_whole_response() {
    let requests = [
        "GET / HTTP/1.1\r\nhost: web\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: web\r\ncontent-length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: web\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ];
    for request in requests {
        for length in [None, Some(7)] {
            let (mesh, _server) = quitter(length).await;
            let mut wire = mesh.wire().await;
            wire.send(request).await;
            let all = wire.rest().await;
            assert!(all.starts_with("HTTP/1.1 200"), "{request}: {all}");
            assert!(!all.ends_with("\r\n0\r\n\r\n"), "{request}: {all}");
        }
    }
}
