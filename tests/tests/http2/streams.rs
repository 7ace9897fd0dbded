//! One stream: bodies, trailers, resets.

use bytes::Bytes;
use futures::stream;
use http::{Method, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Frame;
use linkerd_control::Policy;
use linkerd_tests::{
    Fail, Mesh, SOON, Server, body, chunks, eventually, from_channel, get, request, reset_code,
    soon,
};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

#[tokio::test]
async fn a_request_with_prior_knowledge_stays_http_2() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let reply = soon(mesh.http2().await.get("http://web/a?b"))
        .await
        .unwrap();
    assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
    let seen = server.last();
    assert_eq!(seen.version, Version::HTTP_2);
    assert_eq!(seen.uri.authority().unwrap(), "web");
    assert_eq!(seen.uri.path_and_query().unwrap(), "/a?b");
}

#[tokio::test]
async fn bodies_and_trailers_pass_both_ways() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", "42".parse().unwrap());
    let frames = [
        Frame::data(Bytes::from("one ")),
        Frame::data(Bytes::from("two")),
        Frame::trailers(trailers),
    ];
    let body = chunks(stream::iter(frames.map(Ok)));
    let request = request(Method::POST, "http://web/", body);
    let reply = soon(mesh.http2().await.send(request)).await.unwrap();
    assert_eq!(
        (reply.text(), reply.trailer("x-sum")),
        ("one two", Some("42"))
    );
}

#[tokio::test]
async fn ten_megabytes_pass_both_ways() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let data: Bytes = (0..10_u32 << 20)
        .map(|n| (n % 251) as u8)
        .collect::<Vec<_>>()
        .into();
    let request = request(Method::POST, "http://web/", body(data.clone()));
    let reply = soon(mesh.http2().await.send(request)).await.unwrap();
    assert!(reply.body == data);
}

#[tokio::test]
async fn both_sides_talk_while_the_other_does() {
    let server = Server::echo().await;
    let mesh = Mesh::with(&server).await;
    let (say, texts) = mpsc::channel(1);
    let request = request(Method::POST, "http://web/", from_channel(texts));
    let client = mesh.http2().await;
    let mut response = soon(client.start(request)).await.unwrap();
    for text in ["one", "two", "three"] {
        say.send(text).await.unwrap();
        let frame = soon(response.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
    }
    drop(say);
    let rest = soon(response.into_body().collect()).await.unwrap();
    assert!(rest.to_bytes().is_empty());
}

#[tokio::test]
async fn a_reset_by_the_server_arrives_with_its_code() {
    let server = Server::start(|request| async move {
        let code: u32 = request.uri().path()[1..].parse().unwrap();
        Err(Fail::Reset(code.into()))
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    for code in [
        h2::Reason::CANCEL,
        h2::Reason::ENHANCE_YOUR_CALM,
        h2::Reason::INTERNAL_ERROR,
        h2::Reason::HTTP_1_1_REQUIRED,
    ] {
        let uri = format!("http://web/{}", u32::from(code));
        let error = soon(client.get(&uri)).await.unwrap_err();
        assert_eq!(reset_code(&error), Some(code), "{error:?}");
    }
    assert!(client.is_open(), "only the streams were reset");
    assert_eq!(server.requests(), 4, "none was sent twice");
}

#[tokio::test]
async fn a_reset_in_the_middle_of_a_body_arrives_with_its_code() {
    let (pieces, receiver) = mpsc::channel(1);
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let server = Server::start(move |_| {
        let receiver = receiver.lock().take().unwrap();
        let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
        async { Ok(Response::new(chunks(frames))) }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    pieces
        .send(Ok(Frame::data(Bytes::from("begin"))))
        .await
        .unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    let reset = h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM);
    pieces.send(Err(reset.into())).await.unwrap();
    let error = soon(response.frame()).await.unwrap().unwrap_err();
    assert_eq!(
        reset_code(&error.into()),
        Some(h2::Reason::ENHANCE_YOUR_CALM)
    );
}

#[tokio::test]
async fn a_refused_stream_is_tried_again() {
    let count = Arc::new(Mutex::new(0));
    let server = Server::start(move |_| {
        let mut count = count.lock();
        *count += 1;
        let first = *count == 1;
        async move {
            match first {
                true => Err(Fail::Reset(h2::Reason::REFUSED_STREAM)),
                false => linkerd_tests::reply("hello"),
            }
        }
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let post = request(Method::POST, "http://web/", body("data"));
    let reply = soon(client.send(post)).await.unwrap();
    assert_eq!(reply.text(), "hello");
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_reset_by_the_client_reaches_the_server() {
    let server = Server::start(|_| std::future::pending()).await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let waiting = tokio::spawn(async move {
        let _ = client.get("http://web/").await;
        client
    });
    let in_flight = |count| {
        let server = &server;
        async move { (server.in_flight() == count).then_some(()) }
    };
    eventually(SOON, "the request arrives", || in_flight(1)).await;
    waiting.abort();
    eventually(SOON, "the request is given up", || in_flight(0)).await;
    assert_eq!(server.open_connections(), 1, "only the stream was reset");
}

#[tokio::test]
async fn connection_headers_do_not_come_out_of_http_2() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut request = get("http://web/");
    request
        .headers_mut()
        .insert("te", "trailers".parse().unwrap());
    soon(mesh.http2().await.send(request)).await.unwrap();
    assert_eq!(server.last().headers["te"], "trailers");
}

#[tokio::test]
async fn a_policy_that_says_http_2_spares_the_detection() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.policy("web").set(Policy::balance("web", 80).http2());
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    assert_eq!(reply.text(), "hello");
}

#[tokio::test]
async fn trailers_of_twenty_kilobytes_arrive() {
    let server = Server::start(|_| async {
        let mut trailers = http::HeaderMap::new();
        let details = "x".repeat(20_000);
        trailers.insert("grpc-status-details-bin", details.parse().unwrap());
        let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)];
        Ok(Response::new(chunks(stream::iter(frames.map(Ok)))))
    })
    .await;
    let mesh = Mesh::with(&server).await;
    // hyper's client accepts 16 KB of headers by default.
    let socket = tokio::net::TcpStream::connect(mesh.proxy.outbound)
        .await
        .unwrap();
    let (mut send, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder()
        .uri("http://web/")
        .body(())
        .unwrap();
    let (response, _) = send.send_request(request, true).unwrap();
    let mut body = soon(response).await.unwrap().into_body();
    while let Some(data) = soon(body.data()).await {
        data.unwrap();
    }
    let trailers = soon(body.trailers()).await.unwrap().unwrap();
    assert_eq!(trailers["grpc-status-details-bin"].len(), 20_000);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_others_are_not() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let mut large = get("http://web/");
    large
        .headers_mut()
        .insert("x", "y".repeat(20_000).parse().unwrap());
    let refused = soon(client.send(large)).await;
    assert!(
        refused.as_ref().map_or(true, |reply| reply.status == 431),
        "{refused:?}"
    );
    let reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    assert_eq!((reply.text(), server.requests()), ("hello", 1));
}
