//! The first moments of a pod.

use linkerd_control::Protocol;
use linkerd_tests::{
    Http1, Server,
    netns::{Cluster, SERVICE, isolated},
    reply, soon,
};
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tonic::Status;

#[test]
fn an_application_that_dials_before_its_proxy_has_a_certificate_is_served() {
    isolated(
        "start::an_application_that_dials_before_its_proxy_has_a_certificate_is_served",
        async {
            let cluster = Cluster::start().await;
            let api = cluster.pod("api").await;
            let hello = |_| async { reply("hello") };
            let starting = Server::builder().at(api.at(8080)).start(hello);
            let _server = api.enter(starting).await;
            cluster.service(SERVICE, Protocol::Detect, [api.endpoint(8080)]);

            let issuer = cluster.controller.identity();
            issuer.fail(Status::unavailable("not yet"));
            let web = cluster.unready_pod("web").await;
            let early = web.enter(async {
                let mut client = Http1::connect(SERVICE).await.host_form();
                soon(client.get("http://api.test/")).await.unwrap()
            });
            let issues = async {
                sleep(Duration::from_millis(500)).await;
                issuer.restore();
            };
            let (reply, ()) = tokio::join!(early, issues);
            assert_eq!((reply.status.as_u16(), reply.text()), (200, "hello"));
        },
    );
}

/// The figure of a release build is in docs/performance.md.
#[test]
fn the_first_response_of_a_new_pod_is_meshed() {
    isolated("start::the_first_response_of_a_new_pod_is_meshed", async {
        let cluster = Cluster::start().await;
        let api = cluster.pod("api").await;
        let whose = |request: http::Request<_>| async move {
            reply(
                request.headers()["l5d-client-id"]
                    .to_str()
                    .unwrap()
                    .to_owned(),
            )
        };
        let starting = Server::builder().at(api.at(8080)).start(whose);
        let _server = api.enter(starting).await;
        cluster.service(SERVICE, Protocol::Detect, [api.endpoint(8080)]);
        for _ in 0..5 {
            let begin = Instant::now();
            let web = cluster.unready_pod("web").await;
            let started = begin.elapsed();
            let first = web.enter(async {
                let mut client = Http1::connect(SERVICE).await.host_form();
                soon(client.get("http://api.test/")).await.unwrap()
            });
            let reply = first.await;
            assert_eq!(reply.text(), linkerd_tests::identity("web"));
            let log = web.proxy().wait_for_log("Certified identity").await;
            println!(
                "listens after {started:?}, answers after {:?}; {}",
                begin.elapsed(),
                &log[..16]
            );
            println!("resident: {} KB", web.proxy().rss() / 1024);
        }
    });
}
