//! Outages of servers: all of them, or for a moment.

use futures::future::join_all;
use http::Method;
use linkerd_tests::{Load, Mesh, SOON, Server, body, eventually, ever, refused, request};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};

#[tokio::test]
async fn all_servers_stop_and_return_after_a_while_and_no_get_fails() {
    let mut servers = join_all(["a", "b", "c"].map(Server::says)).await;
    let mesh = Mesh::start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let load = Load::http1(&mesh, 8, Duration::from_millis(2), "http://web/");
    load.more(200).await;
    join_all(servers.iter_mut().map(Server::stop)).await;
    // Waits for 0.8 s.
    ever(Duration::from_millis(800), || async { None::<()> }).await;
    servers.iter_mut().for_each(Server::restart);
    load.more(200).await;
    load.stop().await.assert_clean();
}

#[tokio::test]
async fn servers_restart_one_by_one_and_no_get_fails() {
    let mut servers = join_all(["a", "b", "c"].map(Server::says)).await;
    let mesh = Mesh::start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    let load = Load::http1(&mesh, 8, Duration::from_millis(2), "http://web/");
    let streams = Load::http2(&mesh, 4, Duration::from_millis(2), "http://web/");
    for server in &mut servers {
        load.more(100).await;
        server.stop().await;
        load.more(100).await;
        server.restart();
        let addr = server.addr().to_string();
        eventually(SOON, "it is found again", || async {
            let state = mesh.proxy.admin.state().await;
            let mut endpoints = Vec::new();
            collect(&state["workers"], &addr, &mut endpoints);
            (endpoints.iter().all(|state| state == "ready") && endpoints.len() == 2).then_some(())
        })
        .await;
    }
    load.stop().await.assert_clean();
    streams.stop().await.assert_clean();
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_fails_no_get_and_sees_no_post_twice() {
    let posts = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let seen = posts.clone();
    let idle = Duration::from_millis(50);
    let server = Server::builder()
        .close_idle_after(idle)
        .start(move |request| {
            if request.method() == Method::POST {
                let id = request.uri().path().to_owned();
                *seen.lock().entry(id).or_default() += 1;
            }
            async { linkerd_tests::reply("hello") }
        })
        .await;
    let mesh = Mesh::with(&server).await;
    // Clients whose next request comes just when the server closes.
    let clients = (0..40_u64).map(|n| {
        let proxy = mesh.proxy.outbound;
        async move {
            let pause = idle + Duration::from_micros(200 * (n % 20)) - Duration::from_millis(2);
            let mut failed = Vec::new();
            let mut ticks = tokio::time::interval(pause);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut client = linkerd_tests::Http1::connect(proxy).await;
            for turn in 0..40 {
                ticks.tick().await;
                let posts = n % 4 == 0;
                let reply = match posts {
                    false => client.get("http://web/").await,
                    true => {
                        let uri = format!("http://web/{n}-{turn}");
                        client.send(request(Method::POST, &uri, body("data"))).await
                    }
                };
                match reply {
                    Ok(reply) if reply.status == 200 => {}
                    // The request may have been processed: the client gets the error.
                    Ok(reply) if posts && reply.status == 502 => {}
                    other => failed.push(format!("{n} {turn} {other:?}")),
                }
                if !client.is_open() {
                    client = linkerd_tests::Http1::connect(proxy).await;
                }
            }
            failed
        }
    });
    let failed: Vec<_> = join_all(clients).await.into_iter().flatten().collect();
    assert!(
        failed.is_empty(),
        "{} failed: {:?}",
        failed.len(),
        failed.first()
    );
    let posts = posts.lock();
    let twice: Vec<_> = posts.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(server.connections() > 40, "connections were closed");
}

#[tokio::test]
async fn when_every_endpoint_refuses_requests_wait_and_then_fail_fast() {
    let (one, _one) = refused();
    let (two, _two) = refused();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", [one, two]);
    // The request waited, and fails with its endpoint's error.
    let start = std::time::Instant::now();
    let reply = mesh.get("http://web/").await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(reply.status, 502, "{reply:?}");
    assert!(
        reply
            .header("proxy-status")
            .unwrap()
            .contains("connect_refused"),
        "{reply:?}"
    );
    let reply = mesh.get("http://web/").await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(
        reply
            .header("proxy-status")
            .unwrap()
            .contains("unavailable_unreachable"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_service_recovers_from_fail_fast_when_its_server_returns() {
    let mut server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    assert_eq!(mesh.get("http://web/").await.status, 200);
    server.stop().await;
    eventually(SOON, "it fails fast", || async {
        (mesh.get("http://web/").await.status == 503).then_some(())
    })
    .await;
    server.restart();
    eventually(SOON, "it recovers", || async {
        (mesh.get("http://web/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn connections_to_a_server_are_reused_by_all_clients() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    for _ in 0..20 {
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_idle_connection_to_a_server_is_closed_in_time() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env(
            "LINKERD2_PROXY_OUTBOUND_HTTP1_CONNECTION_POOL_IDLE_TIMEOUT",
            "200ms",
        )
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let mut client = mesh.http1().await;
    client.get("http://web/").await.unwrap();
    eventually(SOON, "it is closed", || async {
        (server.open_connections() == 0).then_some(())
    })
    .await;
    assert!(client.is_open(), "the client's is not");
}

/// The states of an endpoint in all balancers.
fn collect(value: &serde_json::Value, addr: &str, states: &mut Vec<String>) {
    if value["endpoint"] == addr {
        states.push(value["state"].as_str().unwrap_or_default().to_owned());
    }
    let (array, object) = (value.as_array(), value.as_object());
    let array = array.into_iter().flatten();
    let object = object.into_iter().flat_map(|map| map.values());
    array
        .chain(object)
        .for_each(|value| collect(value, addr, states));
}
