//! Nodes that vanish, and links that lose packets.

use crate::{
    traffic::Traffic,
    ways::{Way, Ways},
};
use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use http::{HeaderValue, Method, Request, header::CONNECTION};
use hyper::body::Incoming;
use linkerd_control::Protocol;
use linkerd_tests::{
    Http1, Reply, Server, empty,
    netns::{Cluster, SERVICE, isolated},
    reply,
};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The longest time until traffic has moved to another node. With PINGs it takes 10 s.
const MOVED: Duration = Duration::from_secs(30);

#[test]
fn traffic_moves_away_from_a_node_that_vanishes() {
    isolated(
        "failures::traffic_moves_away_from_a_node_that_vanishes",
        async {
            let cluster = Cluster::start().await;
            let web = cluster.pod("web").await;
            let pods = [cluster.pod("api").await, cluster.pod("api").await];
            let mut servers = Vec::new();
            for pod in &pods {
                let serve = |request: Request<Incoming>| async move {
                    if request.method() == Method::POST {
                        sleep(MOVED * 2).await;
                    }
                    reply("hello")
                };
                let starting = Server::builder().at(pod.at(8080)).start(serve);
                servers.push(pod.enter(starting).await);
            }
            let endpoints = pods.each_ref().map(|pod| pod.endpoint(8080));
            cluster.service(SERVICE, Protocol::Detect, endpoints);
            let traffic = Traffic::start(&web, SERVICE, Duration::from_millis(20));
            traffic.answers(20).await;
            let posts = web.enter(join_all((0..8).map(|_| Http1::connect(SERVICE))));
            let mut posts: FuturesUnordered<_> = posts.await.into_iter().map(post).collect();
            // The requests are open, on both nodes.
            assert!(timeout(Duration::from_secs(1), posts.next()).await.is_err());
            let [_stays, vanishes] = &pods;
            vanishes.vanish();
            let vanished = traffic.elapsed();
            let lost = timeout(MOVED, posts.next()).await.unwrap().unwrap();
            assert_eq!(lost.status, 502, "it may have been processed");
            let status = lost.header("proxy-status").unwrap();
            assert!(status.contains("connection_lost"), "{status}");
            let error = lost.header("l5d-proxy-error").unwrap();
            let endpoint = vanishes.at(8080).to_string();
            assert!(
                error.contains(&endpoint) && error.contains("timed out"),
                "{error}"
            );
            // The requests that waited for the node, and then more than can be in flight.
            traffic.answers(500).await;
            let report = traffic.finish().await;
            assert!(
                report.failures.is_empty(),
                "what can be sent again is: {report:?}"
            );
            let moved = |last: Duration| last < vanished + MOVED;
            assert!(report.last_trouble.is_none_or(moved), "{report:?}");
            println!("{report:?}");
        },
    );
}

async fn post(client: Http1) -> Reply {
    let request = Request::post("http://api.test/").body(empty()).unwrap();
    client.host_form().send(request).await.unwrap()
}

#[test]
fn packets_that_are_lost_cost_time_alone() {
    isolated("failures::packets_that_are_lost_cost_time_alone", async {
        let ways = Ways::start().await;
        let mut servers = Vec::new();
        for pod in ways.servers() {
            let hello = |_| async { reply("hello") };
            let starting = Server::builder().at(pod.at(8080)).start(hello);
            servers.push(pod.enter(starting).await);
            pod.lose("-m statistic --mode random --probability 0.02");
        }
        for Way { name, client, to } in ways.to(8080) {
            let traffic = Traffic::start(client, to, Duration::from_millis(10));
            traffic.answers(100).await;
            let report = traffic.finish().await;
            assert!(report.failures.is_empty(), "{name}: {report:?}");
        }
    });
}

#[test]
fn a_lost_packet_is_no_lost_connection() {
    isolated("failures::a_lost_packet_is_no_lost_connection", async {
        // Less than the time after which the system sends a SYN again.
        let timeout = "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT";
        let ways = Ways::start_with(|proxy| proxy.env(timeout, "900ms")).await;
        let hello = |_| async {
            reply("hello").map(|mut reply| {
                let close = HeaderValue::from_static("close");
                reply.headers_mut().insert(CONNECTION, close);
                reply
            })
        };
        let pod = &ways.plain;
        let starting = Server::builder().at(pod.at(8080)).start(hello);
        let server = pod.enter(starting).await;
        pod.lose("-p tcp --syn -m statistic --mode nth --every 2 --packet 0");
        let client = ways.web.enter(Http1::connect(pod.at(8080)));
        let mut client = client.await.host_form();
        for _ in 0..4 {
            let request = Request::get("http://api.test/").body(empty()).unwrap();
            let reply = client.send(request).await.unwrap();
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        assert_eq!(server.connections(), 4);
    });
}
