//! Endpoints that answer a request with frames that a server's library would not send so.

use bytes::Bytes;
use http::Method;
use linkerd_tests::{Mesh, Tcp, body, request, reset_code, soon};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A mesh with an endpoint that writes these frames when a request has come, and closes if it shall.
async fn mesh(frames: Vec<u8>, closes: bool) -> (Mesh, Tcp) {
    let endpoint = Tcp::start(move |mut socket| {
        let frames = frames.clone();
        async move {
            let _ = socket.write_all(&frame(SETTINGS, 0, 0, &[])).await;
            if request_came(&mut socket).await.is_ok() {
                let _ = socket.write_all(&frames).await;
            }
            while !closes && socket.read_u8().await.is_ok() {}
        }
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    (mesh, endpoint)
}

/// Reads until the head of a request has come.
async fn request_came(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.read_exact(&mut [0; PREFACE]).await?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] == HEADERS {
            return Ok(());
        }
    }
}

/// A frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&head, payload].concat()
}

#[tokio::test]
async fn a_request_that_an_endpoint_which_goes_away_does_not_take_is_refused() {
    // No stream was processed, and there is no error.
    let (mesh, _endpoint) = mesh(frame(GOAWAY, 0, 0, &[0; 8]), false).await;
    // Too much to be sent again by the proxy; the client may.
    let data = body(Bytes::from(vec![b'x'; 100_000]));
    let post = request(Method::POST, "http://web/", data);
    let error = soon(mesh.http2().await.send(post)).await.unwrap_err();
    assert_eq!(
        reset_code(&error),
        Some(h2::Reason::REFUSED_STREAM),
        "{error:?}"
    );
}

/// The length of what a client sends before its frames.
const PREFACE: usize = 24;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
