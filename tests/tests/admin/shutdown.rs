//! Shutdown.

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::BodyExt;
use linkerd_tests::{Mesh, SOON, Server, eventually, from_channel, get, soon};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::mpsc};

/// A server whose response lasts until the sender is dropped.
async fn stream() -> (Server, mpsc::Sender<&'static str>) {
    let (say, texts) = mpsc::channel(1);
    let texts = Arc::new(Mutex::new(Some(texts)));
    let server = Server::start(move |_| {
        let texts = texts.lock().take().unwrap();
        async { Ok(Response::new(from_channel(texts))) }
    })
    .await;
    (server, say)
}

#[tokio::test]
async fn an_idle_proxy_ends_at_once() {
    let mut mesh = Mesh::start().await;
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn idle_connections_do_not_hold_it_up() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::with(&server).await;
    let mut old = mesh.http1().await;
    let new = mesh.http2().await;
    soon(old.get("http://web/")).await.unwrap();
    soon(new.get("http://web/")).await.unwrap();
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn an_http_1_request_in_flight_is_finished_and_its_connection_closed() {
    let server = Server::says("hello").await;
    server.set_latency(Duration::from_millis(500));
    let mut mesh = Mesh::with(&server).await;
    let mut wire = mesh.wire().await;
    wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
    eventually(SOON, "it arrives", || async {
        (server.in_flight() == 1).then_some(())
    })
    .await;
    mesh.proxy.terminate();
    let (head, body) = wire.response().await;
    assert!(head.to_lowercase().contains("connection: close"), "{head}");
    assert_eq!(body, "hello");
    assert_eq!(wire.rest().await, "");
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}

#[tokio::test]
async fn an_http_2_stream_in_flight_is_finished_after_a_goaway() {
    let (server, say) = stream().await;
    let mut mesh = Mesh::with(&server).await;
    let client = mesh.http2().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    say.send("one").await.unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    mesh.proxy.terminate();
    let refused = eventually(SOON, "it takes no new streams", || async {
        client.get("http://web/").await.err()
    });
    refused.await;
    say.send("two").await.unwrap();
    let frame = soon(response.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), Bytes::from("two"));
    assert!(mesh.proxy.is_alive(), "the stream goes on");
    drop(say);
    assert!(soon(response.into_body().collect()).await.is_ok());
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}

#[tokio::test]
async fn it_is_not_ready_and_serves_newcomers_while_it_leaves() {
    let (server, say) = stream().await;
    let mut mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    say.send("one").await.unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    let (other, mut idle) = (Server::says("hello").await, mesh.http1().await);
    mesh.service("other", [other.addr()]);
    soon(idle.get("http://other/")).await.unwrap();
    mesh.proxy.terminate();
    let admin = mesh.proxy.admin;
    eventually(SOON, "a probe hears that it is not ready", || async move {
        (admin.get("/ready").await.status == 503).then_some(())
    })
    .await;
    // While the stream lasts: a new connection for each request, and for each HTTP/2 client.
    for _ in 0..3 {
        let mut new = mesh.http1().await;
        let reply = soon(new.get("http://other/")).await.unwrap();
        assert_eq!(reply.text(), "hello");
        let reply = soon(mesh.http2().await.get("http://other/")).await.unwrap();
        assert_eq!(reply.text(), "hello");
    }
    eventually(SOON, "an idle client is asked to move", || {
        let closed = !idle.is_open();
        async move { closed.then_some(()) }
    })
    .await;
    drop(say);
    soon(response.into_body().collect()).await.unwrap();
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}

#[tokio::test]
async fn without_a_window_and_after_a_job_nobody_is_let_in() {
    for by_signal in [true, false] {
        let (server, say) = stream().await;
        let mut mesh = Mesh::builder()
            .env(
                "LINKERD_PROXY_SHUTDOWN_WINDOW",
                if by_signal { "0s" } else { "1h" },
            )
            .env("LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED", "true")
            .start()
            .await;
        mesh.service("web", [server.addr()]);
        let mut client = mesh.http1().await;
        let mut response = soon(client.start(get("http://web/"))).await.unwrap();
        say.send("one").await.unwrap();
        assert!(soon(response.frame()).await.unwrap().is_ok());
        match by_signal {
            true => mesh.proxy.terminate(),
            false => {
                let reply = mesh
                    .proxy
                    .admin
                    .request(Method::POST, "/shutdown", "")
                    .await;
                assert_eq!(reply.status, 200);
            }
        }
        for addr in [mesh.proxy.outbound, mesh.proxy.admin.addr] {
            eventually(SOON, "nobody is let in", || async move {
                TcpStream::connect(addr).await.err()
            })
            .await;
        }
        drop(say);
        soon(response.into_body().collect()).await.unwrap();
        assert_eq!(
            mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
            Some(0)
        );
    }
}

#[tokio::test]
async fn a_stream_that_never_ends_is_cut_off_after_the_grace_period() {
    let (server, say) = stream().await;
    let mut mesh = Mesh::builder()
        .env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "500ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let mut client = mesh.http1().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    say.send("one").await.unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    mesh.proxy.terminate();
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
    mesh.proxy.wait_for_log("did not complete").await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (server, say) = stream().await;
    let mut mesh = Mesh::with(&server).await;
    let mut client = mesh.http1().await;
    let mut response = soon(client.start(get("http://web/"))).await.unwrap();
    say.send("one").await.unwrap();
    assert!(soon(response.frame()).await.unwrap().is_ok());
    mesh.proxy.terminate();
    mesh.proxy
        .wait_for_log("received SIGTERM, starting shutdown")
        .await;
    assert!(mesh.proxy.is_alive());
    mesh.proxy.terminate();
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}

#[tokio::test]
async fn the_shutdown_endpoint_ends_it_where_it_is_enabled() {
    let mut mesh = Mesh::builder()
        .env("LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED", "true")
        .start()
        .await;
    let reply = mesh
        .proxy
        .admin
        .request(Method::POST, "/shutdown", "")
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}

#[tokio::test]
async fn a_tunnel_is_waited_for() {
    let server = linkerd_tests::Tcp::echo().await;
    let mut mesh = Mesh::start().await;
    mesh.service("db", [server.addr()]);
    let mut wire = linkerd_tests::Wire::tunnel(mesh.proxy.outbound, "db:80").await;
    wire.send("not HTTP\n").await;
    wire.until(b"\n").await;
    mesh.proxy.terminate();
    mesh.proxy
        .wait_for_log("received SIGTERM, starting shutdown")
        .await;
    wire.send("still here\n").await;
    assert_eq!(wire.until(b"\n").await, "still here\n");
    wire.finish().await;
    assert_eq!(wire.rest().await, "");
    assert_eq!(
        mesh.proxy.wait_exit(Duration::from_secs(5)).await.code(),
        Some(0)
    );
}
