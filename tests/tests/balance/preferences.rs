//! Preferences of balancers that the environment sets.

use futures::future::join_all;
use http::Method;
use linkerd_control::{Endpoint, EndpointSet};
use linkerd_tests::{Mesh, SOON, Server, empty, eventually, request};
use std::{collections::BTreeSet, time::Duration};

const AFFINITY: &str = "LINKERD_PROXY_OUTBOUND_BALANCER_AFFINITY";

async fn mesh(name: &str, value: &str, servers: &[Server]) -> Mesh {
    let mesh = Mesh::builder().env(name, value).start().await;
    mesh.service("web", servers.iter().map(Server::addr));
    mesh
}

/// The servers that answer some requests with this header.
async fn answers(mesh: &Mesh, header: (&'static str, &str)) -> BTreeSet<String> {
    let mut client = mesh.http1().await;
    let mut answers = BTreeSet::new();
    for _ in 0..5 {
        let mut sent = request(Method::GET, "http://web/", empty());
        sent.headers_mut()
            .insert(header.0, header.1.parse().unwrap());
        answers.insert(client.send(sent).await.unwrap().text().to_owned());
    }
    answers
}

#[tokio::test]
async fn a_session_keeps_its_server_and_sessions_are_spread() {
    for (affinity, header) in [("header:x-user", "x-user"), ("cookie:session", "cookie")] {
        let servers = join_all(["a", "b", "c"].map(Server::says)).await;
        let mesh = mesh(AFFINITY, affinity, &servers).await;
        let mut all = BTreeSet::new();
        for user in 0..40 {
            let value = match header {
                "cookie" => format!("other=1; session={user}"),
                _ => user.to_string(),
            };
            let answers = answers(&mesh, (header, &value)).await;
            assert_eq!(answers.len(), 1, "{value}: {answers:?}");
            all.extend(answers);
        }
        assert_eq!(all.len(), 3);
        eventually(SOON, "requests without a key are spread", || async {
            (answers(&mesh, ("x-other", "1")).await.len() > 1).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_sessions_of_a_server_that_leaves_move_and_no_others() {
    let servers = join_all(["a", "b", "c"].map(Server::says)).await;
    let mesh = mesh(AFFINITY, "header:x-user", &servers).await;
    let mut sessions = Vec::new();
    for user in 0..40 {
        let user = user.to_string();
        sessions.push((user.clone(), answers(&mesh, ("x-user", &user)).await));
    }
    let left = servers[..2].iter().map(Server::addr);
    mesh.endpoints("web").set(EndpointSet::new(left));
    let gone = BTreeSet::from(["c".to_owned()]);
    let (moving, _) = sessions.iter().find(|(_, before)| *before == gone).unwrap();
    eventually(SOON, "the server has left", || async {
        (answers(&mesh, ("x-user", moving)).await != gone).then_some(())
    })
    .await;
    for (user, before) in &sessions {
        let after = answers(&mesh, ("x-user", user)).await;
        assert_eq!(after.len(), 1);
        assert!(
            after == *before || *before == gone,
            "{user}: {before:?} {after:?}"
        );
    }
}

#[tokio::test]
async fn requests_stay_in_the_zone_until_its_servers_are_gone() {
    let servers = join_all(["near", "far"].map(Server::says)).await;
    let mesh = mesh("LINKERD_PROXY_OUTBOUND_BALANCER_PREFER_ZONE", "1", &servers).await;
    let endpoint =
        |server: &Server, zone: &str| Endpoint::new(server.addr()).label("zone_locality", zone);
    let (near, far) = (
        endpoint(&servers[0], "local"),
        endpoint(&servers[1], "remote"),
    );
    let policy = mesh.endpoints("web");
    policy.set(EndpointSet::new([near, far.clone()]));
    let all = async || answers(&mesh, ("x-other", "1")).await;
    eventually(SOON, "the zones are known", || async {
        (all().await == BTreeSet::from(["near".to_owned()])).then_some(())
    })
    .await;
    for _ in 0..10 {
        assert_eq!(all().await, BTreeSet::from(["near".to_owned()]));
    }
    policy.set(EndpointSet::new([far]));
    eventually(SOON, "the other zone serves", || async {
        (all().await == BTreeSet::from(["far".to_owned()])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn long_streams_are_spread_evenly_by_the_least_requests_in_flight() {
    let name = "LINKERD_PROXY_OUTBOUND_BALANCER_LOAD";
    let servers = join_all(["a", "b", "c", "d"].map(Server::says)).await;
    let mesh = mesh(name, "least-pending", &servers).await;
    let client = mesh.http2().await;
    // An endpoint that is not connected yet gets no request.
    while servers.iter().any(|server| server.requests() == 0) {
        client.get("http://web/").await.unwrap();
    }
    for server in &servers {
        server.set_latency(Duration::from_secs(3_600));
    }
    let calls = (0..40).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.get("http://web/").await.is_ok() })
    });
    let calls: Vec<_> = calls.collect();
    eventually(SOON, "all are on their way", || async {
        let in_flight = servers.iter().map(Server::in_flight).sum::<usize>();
        (in_flight == 40).then_some(())
    })
    .await;
    for server in &servers {
        let in_flight = server.in_flight();
        assert!((8..=12).contains(&in_flight), "{in_flight}");
    }
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}
