//! Endpoints with frames that a server library would not send.

use bytes::Bytes;
use http::Method;
use linkerd_tests::{Mesh, Tcp, body, get, request, reset_code, soon};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A mesh with an endpoint that writes these frames after a request, and closes if `closes`.
async fn mesh(frames: Vec<u8>, closes: bool) -> (Mesh, Tcp) {
    let endpoint = Tcp::start(move |mut socket| {
        let frames = frames.clone();
        async move {
            let begun = begin(&mut socket).await;
            if begun.is_ok() && next_request(&mut socket).await.is_ok() {
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

/// Sends settings, and reads a client's preface.
pub(super) async fn begin(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    socket.read_exact(&mut [0; PREFACE]).await.map(|_| ())
}

/// Reads the head of the next request, and returns its stream.
pub(super) async fn next_request(socket: &mut TcpStream) -> std::io::Result<u8> {
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        socket.read_exact(&mut vec![0; length as usize]).await?;
        if head[3] == HEADERS {
            return Ok(head[8]);
        }
    }
}

/// A frame (RFC 9113, section 4.1).
pub(super) fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&head, payload].concat()
}

#[tokio::test]
async fn a_request_that_an_endpoint_which_goes_away_does_not_take_is_refused() {
    // No stream was processed, without an error.
    let (mesh, _endpoint) = mesh(frame(GOAWAY, 0, 0, &[0; 8]), false).await;
    // Too large for a retry by the proxy; the client may repeat the request.
    let data = body(Bytes::from(vec![b'x'; 100_000]));
    let post = request(Method::POST, "http://web/", data);
    let error = soon(mesh.http2().await.send(post)).await.unwrap_err();
    assert_eq!(
        reset_code(&error),
        Some(h2::Reason::REFUSED_STREAM),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_response_that_breaks_off_at_once_has_its_head() {
    let head = frame(HEADERS, END_HEADERS, 1, &[STATUS_200]);
    let reset = frame(RST_STREAM, 0, 1, &[0, 0, 0, CANCEL]);
    for (frames, closes, code) in [
        ([head.clone(), reset].concat(), false, h2::Reason::CANCEL),
        (head, true, h2::Reason::INTERNAL_ERROR),
    ] {
        let (mesh, _endpoint) = mesh(frames, closes).await;
        let client = mesh.http2().await;
        let mut response = soon(client.start(get("http://web/"))).await.unwrap();
        assert_eq!(response.status(), 200);
        let error = soon(http_body_util::BodyExt::frame(&mut response)).await;
        let error = error.unwrap().unwrap_err();
        assert_eq!(reset_code(&error.into()), Some(code));
    }
}

/// Interim responses are dropped (docs/operations.md), however many, and hide nothing of the final one.
#[tokio::test]
async fn interim_responses_of_an_endpoint_do_not_hide_its_final_one() {
    let interim = |status: &str| {
        let field = [&[STATUS, 3], status.as_bytes()].concat();
        frame(HEADERS, END_HEADERS, 1, &field)
    };
    let mut frames = [interim("102"), interim("103")].concat();
    frames.extend(interim("103").repeat(1000));
    frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &[STATUS_200]));
    let (mesh, _endpoint) = mesh(frames, false).await;
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    assert_eq!(reply.status, 200);
}

/// The length of the client's connection preface.
const PREFACE: usize = 24;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const END_STREAM: u8 = 1;

/// A field `:status` with a value of its own, which is not indexed.
const STATUS: u8 = 0x08;
/// The field `:status: 200` (RFC 7541, appendix A).
pub(super) const STATUS_200: u8 = 0x88;
/// The code of a reset.
const CANCEL: u8 = 8;
