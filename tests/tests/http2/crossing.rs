//! Frames that cross a reset on their way.

use super::frames::{END_HEADERS, HEADERS, PREFACE, SETTINGS, STATUS_200, frame, next_request};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use http_body_util::BodyExt;
use hyper::body::Frame;
use linkerd_tests::{Http2, Mesh, Server, Tcp, chunks, get, reply, reset_code, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Calls whose clients leave while messages are on their way do not end the connection, and with it the calls of others.
#[tokio::test]
async fn cancelled_calls_harm_no_other_stream() {
    let server = Server::start(|request| async move {
        match request.uri().path() {
            "/messages" => {
                let messages = stream::repeat(()).then(|()| async {
                    tokio::task::yield_now().await;
                    Ok(Frame::data(Bytes::from_static(b"\0\0\0\0\x05hello")))
                });
                Ok(Response::new(chunks(messages)))
            }
            _ => reply("hello"),
        }
    })
    .await;
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

/// What ends an endpoint's connection is not told to its clients as their own fault.
#[tokio::test]
async fn the_code_of_an_endpoints_connection_does_not_reach_its_clients() {
    let endpoint = Tcp::start(|mut socket| async move {
        let mut goaway = vec![0; 8];
        goaway[3] = 1;
        goaway[7] = 11;
        let frames = [
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, &[STATUS_200]),
            frame(DATA, 0, 1, b"hello"),
            frame(GOAWAY, 0, 0, &goaway),
        ];
        let _ = socket.write_all(&frames[0]).await;
        let _ = socket.read_exact(&mut [0; PREFACE]).await;
        if next_request(&mut socket).await.is_ok() {
            let _ = socket.write_all(&frames[1..].concat()).await;
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

const DATA: u8 = 0;
const GOAWAY: u8 = 7;
