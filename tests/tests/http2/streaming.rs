//! Streaming calls with small messages at a steady rate, beside cancelled ones and a reader that pauses.
//!
//! `LINKERD_TESTS_STREAMING_SECONDS=600` runs for ten minutes.

use super::{MESSAGE, messages};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use linkerd_tests::{Body, Http2, Meshed, SOON, Server, get, request};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, timeout},
};

/// All calls that their clients do not cancel have all of their messages, in both directions, through two proxies.
#[tokio::test]
async fn no_call_fails_that_its_own_ends_did_not_end() {
    let server = Server::start(|request: Request<Incoming>| async move {
        Ok(Response::new(match request.uri().path() {
            "/endless" => messages(usize::MAX),
            "/down" => messages(MESSAGES),
            _ => request
                .into_body()
                .map_err(linkerd_tests::BoxError::from)
                .boxed_unsync(),
        }))
    })
    .await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(server.addr(), |endpoint| endpoint.h2());
    let proxy = mesh.web.outbound;
    let paused = Http2::with_window(proxy, 100).await;
    let paused = paused.start(get("http://api/endless")).await.unwrap();

    let seconds = std::env::var("LINKERD_TESTS_STREAMING_SECONDS");
    let seconds = seconds.map_or(3, |seconds| seconds.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut ticks = interval(Duration::from_millis(100));
    let whole = Arc::new(AtomicUsize::new(0));
    let mut calls = JoinSet::new();
    let mut clients = Vec::new();
    for number in 0.. {
        // Open-loop: a call begins when it is due, whatever became of the others.
        ticks.tick().await;
        if Instant::now() > end {
            break;
        }
        if number % CALLS_OF_A_CLIENT == 0 {
            clients = vec![Http2::connect(proxy).await, Http2::connect(proxy).await];
        }
        let client = clients[number % 2].clone();
        let whole = whole.clone();
        calls.spawn(async move {
            match number % 4 {
                0 => cancelled(&client).await,
                1 => whole.fetch_add(received(&client, "/down", None).await, SeqCst),
                _ => whole.fetch_add(
                    received(&client, "/echo", Some(messages(MESSAGES))).await,
                    SeqCst,
                ),
            };
        });
    }
    let begun = calls.len();
    while let Some(ended) = timeout(SOON, calls.join_next()).await.unwrap() {
        ended.unwrap();
    }
    assert_eq!(whole.load(SeqCst), MESSAGES * (begun - begun.div_ceil(4)));
    drop(paused);
    for proxy in [&mesh.web, &mesh.api] {
        assert!(proxy.rss() < MAX_MEMORY, "{}", proxy.rss());
    }
}

/// The number of messages that a call receives.
async fn received(client: &Http2, path: &str, upload: Option<Body>) -> usize {
    let uri = format!("http://api{path}");
    let call = match upload {
        Some(body) => request(Method::POST, &uri, body),
        None => get(&uri),
    };
    let response = client.start(call).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap();
    body.to_bytes().len() / MESSAGE.len()
}

/// A call whose client leaves while messages are on their way. Returns 0: it has none to count.
async fn cancelled(client: &Http2) -> usize {
    let mut response = client.start(get("http://api/endless")).await.unwrap();
    response.frame().await.unwrap().unwrap();
    0
}

const MESSAGES: usize = 100;

/// The libraries of clients end connections with many cancelled calls.
const CALLS_OF_A_CLIENT: usize = 100;

/// Of a proxy built for tests, in bytes.
const MAX_MEMORY: u64 = 150_000_000;
