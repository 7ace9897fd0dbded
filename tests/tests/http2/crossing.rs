//! Frames that cross a reset on their way.

use super::{
    frames::{DATA, END_HEADERS, GOAWAY, HEADERS, STATUS_200, begin, frame, next_request},
    messages,
};
use http::Response;
use http_body_util::BodyExt;
use linkerd_tests::{Http2, Mesh, Server, Tcp, get, reset_code, soon};
use tokio::io::AsyncWriteExt;

/// Calls whose clients leave while messages are on their way do not end the connection, and with it the calls of others.
#[tokio::test]
async fn cancelled_calls_harm_no_other_stream() {
    let server = Server::start(|_| async { Ok(Response::new(messages(usize::MAX))) }).await;
    let mesh = Mesh::with(&server).await;
    // The libraries of clients end connections with many small frames, too.
    let other = Http2::with_window(mesh.proxy.outbound, 1_000).await;
    let mut other = soon(other.start(get("http://web/messages"))).await.unwrap();
    for _ in 0..CANCELLED {
        let client = mesh.http2().await;
        let call = client.start(get("http://web/messages"));
        let mut response = soon(call).await.unwrap();
        soon(response.frame()).await.unwrap().unwrap();
        drop(response);
        soon(other.frame()).await.unwrap().unwrap();
    }
    // A connection with many crossing frames is left in time.
    assert!(server.connections() < 10);
}

/// The end of an endpoint's connection is not told to its clients as their own fault.
#[tokio::test]
async fn the_code_of_an_endpoints_connection_does_not_reach_its_clients() {
    let endpoint = Tcp::start(|mut socket| async move {
        let mut goaway = vec![0; 8];
        goaway[3] = 1;
        goaway[7] = 11;
        let frames = [
            frame(HEADERS, END_HEADERS, 1, &[STATUS_200]),
            frame(DATA, 0, 1, b"hello"),
            frame(GOAWAY, 0, 0, &goaway),
        ];
        let begun = begin(&mut socket).await;
        if begun.is_ok() && next_request(&mut socket).await.is_ok() {
            let _ = socket.write_all(&frames.concat()).await;
        }
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    let client = mesh.http2().await;
    let response = soon(client.start(get("http://web/"))).await.unwrap();
    let error = soon(response.into_body().collect()).await.unwrap_err();
    let code = reset_code(&error.into());
    assert_eq!(code, Some(h2::Reason::INTERNAL_ERROR));
}

const CANCELLED: usize = 600;
