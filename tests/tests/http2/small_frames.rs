//! Peers that write many small DATA frames, or empty ones.

use super::{
    MESSAGE,
    frames::{DATA, END_HEADERS, END_STREAM, HEADERS, STATUS_200, begin, frame, next_request},
    messages,
};
use futures::future;
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use linkerd_tests::{Http2, Mesh, Meshed, Server, Tcp, from_channel, get, reply, request, soon};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
};

/// A service `web` whose endpoint handles each connection after the client's preface.
async fn mesh_of<F, R>(handler: F) -> (Mesh, Tcp)
where
    F: Fn(TcpStream) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let endpoint = Tcp::start(move |mut socket| {
        let handler = handler.clone();
        async move {
            socket.set_nodelay(true).unwrap();
            if begin(&mut socket).await.is_ok() {
                let _ = handler(socket).await;
            }
        }
    })
    .await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    (mesh, endpoint)
}

/// The length of a body, read to its end.
async fn length(body: Incoming) -> usize {
    soon(body.collect()).await.unwrap().to_bytes().len()
}

/// As grpc-go writes: the messages of all streams take turns, in few packets.
#[tokio::test]
async fn small_frames_that_come_in_a_batch_all_arrive() {
    let (mesh, _endpoint) = mesh_of(|mut socket| async move {
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(next_request(&mut socket).await?);
        }
        let mut batch = Vec::new();
        for stream in &streams {
            batch.extend(frame(HEADERS, END_HEADERS, *stream, &[STATUS_200]));
        }
        for message in 1..=MESSAGES {
            for stream in &streams {
                let flags = u8::from(message == MESSAGES);
                batch.extend(frame(DATA, flags, *stream, MESSAGE));
            }
        }
        socket.write_all(&batch).await?;
        while socket.read_u8().await.is_ok() {}
        Ok(())
    })
    .await;
    let client = mesh.http2().await;
    let calls = (0..STREAMS).map(|_| async {
        let response = soon(client.start(get("http://web/"))).await.unwrap();
        length(response.into_body()).await
    });
    let read = future::join_all(calls).await;
    assert_eq!(read, [MESSAGES * MESSAGE.len(); STREAMS]);
}

/// As Jetty writes: an empty frame comes before the trailers of each response.
#[tokio::test]
async fn empty_frames_do_not_end_a_connection() {
    let (mesh, _endpoint) = mesh_of(|mut socket| async move {
        while let Ok(stream) = next_request(&mut socket).await {
            let trailers = [b"\x00\x05x-sum\x01".as_slice(), b"1"].concat();
            let response = [
                frame(HEADERS, END_HEADERS, stream, &[STATUS_200]),
                frame(DATA, 0, stream, b"hello"),
                frame(DATA, 0, stream, b""),
                frame(DATA, 0, stream, b""),
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &trailers),
            ];
            socket.write_all(&response.concat()).await?;
        }
        Ok(())
    })
    .await;
    let client = mesh.http2().await;
    for _ in 0..120 {
        let reply = soon(client.get("http://web/")).await.unwrap();
        assert_eq!((reply.text(), reply.trailer("x-sum")), ("hello", Some("1")));
    }
}

/// A reader that pauses holds the window of its own stream, however many frames that has, and harms no other stream.
#[tokio::test]
async fn a_reader_that_pauses_harms_no_other_stream() {
    let (send, events) = mpsc::channel(EVENTS);
    let events = Mutex::new(Some(events));
    let server = Server::start(move |request| {
        let is_events = request.uri().path() == "/events";
        let events = is_events.then(|| events.lock().take().unwrap());
        async move {
            match events {
                Some(events) => Ok(Response::new(from_channel(events))),
                None => reply("hello"),
            }
        }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let paused = Http2::with_window(mesh.proxy.outbound, 100).await;
    let events = soon(paused.start(get("http://web/events"))).await.unwrap();
    let client = mesh.http2().await;
    for _ in 0..6_000 {
        send.try_send("12345").unwrap();
        let reply = soon(client.get("http://web/")).await.unwrap();
        assert_eq!(reply.text(), "hello");
    }
    assert_eq!(server.connections(), 1, "it is the connection of all");
    // It goes on where it has paused, to the end.
    drop(send);
    assert_eq!(length(events.into_body()).await, 6_000 * 5);
}

#[tokio::test]
async fn events_between_pods_are_not_cut() {
    let server = Server::start(|_| async { Ok(Response::new(messages(EVENTS))) }).await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint.h2());
    let client = mesh.http2().await;
    let calls = (0..STREAMS).map(|_| async {
        let response = soon(client.start(get("http://api/"))).await.unwrap();
        length(response.into_body()).await
    });
    let read = future::join_all(calls).await;
    assert_eq!(read, [EVENTS * MESSAGE.len(); STREAMS]);
}

#[tokio::test]
async fn uploads_in_small_frames_pass_both_proxies() {
    let server = Server::echo().await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint.h2());
    let client = mesh.http2().await;
    let calls = (0..STREAMS).map(|_| async {
        let upload = request(Method::POST, "http://api/", messages(EVENTS));
        let response = soon(client.start(upload)).await.unwrap();
        length(response.into_body()).await
    });
    let read = future::join_all(calls).await;
    assert_eq!(read, [EVENTS * MESSAGE.len(); STREAMS]);
}

const STREAMS: usize = 6;
const MESSAGES: usize = 2_000;
const EVENTS: usize = 20_000;
