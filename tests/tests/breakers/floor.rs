//! Endpoints that are not ejected because too few would be left.

use crate::{Endpoint, LONG, get, mesh, policy};
use futures::future::join_all;
use linkerd_control::{Breaker, EndpointSet};
use linkerd_tests::{Mesh, SOON, eventually};

fn floor(endpoints: u32) -> linkerd_control::Policy {
    let breaker = Breaker::consecutive(2).backoff(LONG, LONG);
    policy(breaker.min_ready_endpoints(endpoints))
}

async fn open(mesh: &Mesh, endpoints: &[Endpoint]) -> usize {
    let states = endpoints.iter().map(|endpoint| endpoint.state(mesh));
    let states = join_all(states).await;
    let is_open = |state: &&serde_json::Value| state["breaker"]["state"] == "open";
    states.iter().filter(is_open).count()
}

#[tokio::test]
async fn the_last_endpoints_stay_however_they_fail() {
    let endpoints = join_all([500; 3].map(Endpoint::start)).await;
    let mesh = mesh(floor(2), &endpoints.iter().collect::<Vec<_>>()).await;
    for _ in 0..50 {
        assert_eq!(get(&mesh).await.status, 500);
    }
    assert_eq!(open(&mesh, &endpoints).await, 1);
    let states = join_all(endpoints.iter().map(|endpoint| endpoint.state(&mesh))).await;
    let kept = states
        .iter()
        .filter_map(|state| state["breaker"]["kept_by_floor"].as_u64());
    assert!(kept.sum::<u64>() > 0, "{states:?}");
}

#[tokio::test]
async fn an_ejected_endpoint_comes_back_when_others_leave() {
    let endpoints = join_all([500; 2].map(Endpoint::start)).await;
    let mesh = mesh(floor(1), &endpoints.iter().collect::<Vec<_>>()).await;
    eventually(SOON, "one is ejected", || async {
        get(&mesh).await;
        (open(&mesh, &endpoints).await == 1).then_some(())
    })
    .await;
    let mut ejected = None;
    for endpoint in endpoints {
        if endpoint.state(&mesh).await["breaker"]["state"] == "open" {
            ejected = Some(endpoint);
        }
    }
    let ejected = ejected.unwrap();
    let before = ejected.server.requests();
    mesh.endpoints("web")
        .set(EndpointSet::new([ejected.server.addr()]));
    eventually(SOON, "it is asked again", || async {
        get(&mesh).await;
        (ejected.server.requests() > before).then_some(())
    })
    .await;
    mesh.proxy
        .wait_for_log("too few other endpoints are left")
        .await;
}
