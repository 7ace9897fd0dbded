//! Backends that cannot take a request.

use crate::{
    impatient, provoke,
    seen::{Seen, answered},
};
use linkerd_control::{Breaker, Policy};
use linkerd_tests::{
    Fail, Http2, Mesh, Reply, SOON, Server, Tcp, blackhole, eventually, refused, soon,
};
use std::{future::pending, time::Duration};

provoke! {
    failfast_no_endpoints => async |reason: &'static str| no_endpoints(reason, 1).await;
    unavailable_no_endpoints => async |reason: &'static str| no_endpoints(reason, 2).await;
    failfast_not_resolved => async |reason: &'static str| not_resolved(reason, 1).await;
    unavailable_not_resolved => async |reason: &'static str| not_resolved(reason, 2).await;
    failfast_connecting => async |reason: &'static str| connecting(reason, 1).await;
    unavailable_connecting => async |reason: &'static str| connecting(reason, 2).await;
    failfast_unreachable => async |reason: &'static str| unreachable(reason).await;
    unavailable_unreachable => async |reason: &'static str| unreachable(reason).await;
    failfast_stream_limit => async |reason: &'static str| stream_limit(reason, 1).await;
    unavailable_stream_limit => async |reason: &'static str| stream_limit(reason, 2).await;
    failfast_http1_only => async |reason: &'static str| http1_only(reason).await;
    unavailable_http1_only => async |reason: &'static str| http1_only(reason).await;
    failfast_ejected => async |reason: &'static str| ejected(reason, 1).await;
    unavailable_ejected => async |reason: &'static str| ejected(reason, 2).await;
    queue_full => async |reason: &'static str| full_queue(reason).await;
    in_flight_limit => async |reason: &'static str| busy(reason).await;
    descriptor_limit => async |reason: &'static str| {
        let server = Server::says("hello").await;
        let mesh = impatient().start().await;
        mesh.service("web", [server.addr()]);
        let mut client = mesh.http1().await;
        assert_eq!(soon(client.get("http://web/")).await.unwrap().text(), "hello");
        mesh.service("other", [Server::says("other").await.addr()]);
        // The client has a descriptor, but none is left for the endpoint.
        mesh.proxy.set_descriptor_limit(1);
        let reply = soon(client.get("http://other/")).await.unwrap();
        mesh.proxy.set_descriptor_limit(1024);
        answered(&mesh.proxy, &reply, reason).await
    };
}

/// Sends this many requests one after the other, and returns the last response.
async fn last(mesh: &Mesh, number: usize) -> Reply {
    for _ in 1..number {
        mesh.get("http://web/").await;
    }
    mesh.get("http://web/").await
}

async fn no_endpoints(reason: &'static str, number: usize) -> Seen {
    let mesh = impatient().start().await;
    mesh.service("web", []).no_endpoints(true);
    answered(&mesh.proxy, &last(&mesh, number).await, reason).await
}

async fn not_resolved(reason: &'static str, number: usize) -> Seen {
    let mesh = impatient().start().await;
    mesh.policy("web").set(Policy::balance("web", 80));
    mesh.endpoints("web").silent();
    answered(&mesh.proxy, &last(&mesh, number).await, reason).await
}

async fn connecting(reason: &'static str, number: usize) -> Seen {
    let (addr, _guard) = blackhole();
    let builder = impatient().env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "20s");
    let mesh = builder.start().await;
    mesh.service("web", [addr]);
    let client = mesh.http2().await;
    let first = soon(client.get("http://web/")).await.unwrap();
    let reply = match number {
        1 => first,
        _ => soon(client.get("http://web/")).await.unwrap(),
    };
    answered(&mesh.proxy, &reply, reason).await
}

/// Repeats requests, as the reason depends on when the endpoint was last tried.
async fn unreachable(reason: &'static str) -> Seen {
    let (addr, _guard) = refused();
    let mesh = impatient().start().await;
    mesh.service("web", [addr]);
    let client = mesh.http2().await;
    let reply = until(&client, reason).await;
    answered(&mesh.proxy, &reply, reason).await
}

async fn http1_only(reason: &'static str) -> Seen {
    let server: Tcp = Tcp::answers(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
    let mesh = impatient().start().await;
    mesh.service("web", [server.addr()]);
    let client = mesh.http2().await;
    let reply = until(&client, reason).await;
    answered(&mesh.proxy, &reply, reason).await
}

/// Sends two requests at a time until one fails for this reason. Some wait while others are refused.
async fn until(client: &Http2, reason: &str) -> Reply {
    eventually(SOON, reason, || async {
        let (a, b) = tokio::join!(client.get("http://web/"), client.get("http://web/"));
        [a, b].into_iter().flatten().find(|reply| {
            let status = reply.header("proxy-status").unwrap_or_default();
            status.contains(&format!("\"{reason}\""))
        })
    })
    .await
}

async fn stream_limit(reason: &'static str, number: usize) -> Seen {
    let server = Server::builder().max_streams(1).start(|_| pending()).await;
    let connections = "LINKERD_PROXY_OUTBOUND_HTTP2_MAX_CONNECTIONS_PER_ENDPOINT";
    let mesh = impatient().env(connections, 1).start().await;
    mesh.service("web", [server.addr()]);
    let holder = mesh.http2().await;
    let holder = tokio::spawn(async move { holder.get("http://web/").await });
    eventually(SOON, "it holds the stream", || async {
        (server.in_flight() == 1).then_some(())
    })
    .await;
    let client = mesh.http2().await;
    let mut reply = soon(client.get("http://web/")).await.unwrap();
    if number > 1 {
        reply = soon(mesh.http2().await.get("http://web/")).await.unwrap();
    }
    holder.abort();
    answered(&mesh.proxy, &reply, reason).await
}

async fn ejected(reason: &'static str, number: usize) -> Seen {
    let server = Server::start(|_| async { Err(Fail::Close) }).await;
    let mesh = impatient().start().await;
    mesh.service("web", [server.addr()]);
    let long = Duration::from_secs(600);
    let breaker = Breaker::consecutive(2).backoff(long, long);
    mesh.policy("web")
        .set(Policy::balance("web", 80).failure_accrual(breaker));
    mesh.get("http://web/").await;
    mesh.proxy.wait_for_log("breaker opened").await;
    answered(&mesh.proxy, &last(&mesh, number).await, reason).await
}

async fn full_queue(reason: &'static str) -> Seen {
    let builder = impatient().env("LINKERD2_PROXY_OUTBOUND_HTTP_QUEUE_CAPACITY", 1);
    let mesh = builder.start().await;
    mesh.policy("web").set(Policy::balance("web", 80));
    mesh.endpoints("web").silent();
    shed(&mesh, reason).await
}

async fn busy(reason: &'static str) -> Seen {
    let server = Server::start(|_| pending()).await;
    let builder = impatient().env("LINKERD2_PROXY_OUTBOUND_MAX_IN_FLIGHT", 1);
    let mesh = builder.start().await;
    mesh.service("web", [server.addr()]);
    shed(&mesh, reason).await
}

/// Sends several requests at once, and checks the first response.
async fn shed(mesh: &Mesh, reason: &'static str) -> Seen {
    let requests = (0..6).map(|_| Box::pin(mesh.get("http://web/")));
    let (reply, _, others) = futures::future::select_all(requests).await;
    drop(others);
    answered(&mesh.proxy, &reply, reason).await
}
