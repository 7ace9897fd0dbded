//! Pods that are created and removed.

use crate::traffic::Traffic;
use linkerd_control::Protocol;
use linkerd_tests::{
    SOON, Server, eventually,
    netns::{Cluster, ClusterPod, SERVICE, isolated},
    reply,
};
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// The number of restarts, unless `LINKERD_TESTS_RESTARTS` is set.
const RESTARTS: usize = 20;
/// Time until the end of a pod becomes known to its clients.
const PROPAGATION: Duration = Duration::from_millis(100);

/// A pod of the service, and its application.
struct Replica {
    pod: ClusterPod,
    application: Server,
}

impl Replica {
    async fn start(cluster: &Cluster) -> Self {
        let pod = cluster.pod("api").await;
        let hello = |_| async { reply("hello") };
        let starting = Server::builder().at(pod.at(8080)).start(hello);
        let application = pod.enter(starting).await;
        Self { pod, application }
    }

    /// Ends like a pod: all of its containers get SIGTERM before its clients learn of it.
    async fn end(mut self, cluster: &Cluster, web: &ClusterPod, has_hook: bool, next: &Self) {
        self.pod.proxy().terminate();
        let heard = async {
            sleep(PROPAGATION).await;
            cluster.endpoints(SERVICE, [next.pod.endpoint(8080)]);
            endpoints(web, 1).await;
        };
        match has_hook {
            // The application serves until all clients have learned of its end.
            true => {
                heard.await;
                drop(self.application);
            }
            false => {
                drop(self.application);
                heard.await;
            }
        }
        let proxy = self.pod.proxy_mut();
        assert_eq!(proxy.wait_exit(SOON).await.code(), Some(0));
    }
}

/// Waits until both balancers of the client, for HTTP/1 and for HTTP/2, have this number of endpoints, all of them ready.
async fn endpoints(web: &ClusterPod, number: usize) {
    let proxy = web.proxy();
    let seen = eventually(SOON, "the endpoints are known", || async {
        let mut balancers = Vec::new();
        find_balancers(&proxy.admin.state().await["workers"], &mut balancers);
        (balancers == [(number, number); 2]).then_some(())
    });
    web.enter(seen).await;
}

/// The endpoints of each balancer in a part of `/state`, and the number of those that are ready.
fn find_balancers(state: &Value, found: &mut Vec<(usize, usize)>) {
    match state {
        Value::Array(items) => items.iter().for_each(|item| find_balancers(item, found)),
        Value::Object(members) => {
            if let (Some(Value::Number(ready)), Some(Value::Array(endpoints))) =
                (members.get("ready"), members.get("endpoints"))
            {
                found.push((endpoints.len(), ready.as_u64().unwrap_or(0) as usize));
            }
            members
                .values()
                .for_each(|member| find_balancers(member, found));
        }
        _ => {}
    }
}

#[test]
fn rolling_restarts_fail_no_request() {
    isolated("rolling::rolling_restarts_fail_no_request", restarts(true));
}

#[test]
fn rolling_restarts_of_applications_that_end_at_once_fail_no_request() {
    isolated(
        "rolling::rolling_restarts_of_applications_that_end_at_once_fail_no_request",
        restarts(false),
    );
}

async fn restarts(has_hook: bool) {
    let number = std::env::var("LINKERD_TESTS_RESTARTS");
    let number = number.map_or(RESTARTS, |number| number.parse().unwrap());
    let cluster = Cluster::start().await;
    let web = cluster.pod("web").await;
    let mut replica = Replica::start(&cluster).await;
    cluster.service(SERVICE, Protocol::Detect, [replica.pod.endpoint(8080)]);
    let traffic = Traffic::start(&web, SERVICE, Duration::from_millis(10));
    for _ in 0..number {
        let next = Replica::start(&cluster).await;
        let both = [&replica, &next].map(|replica| replica.pod.endpoint(8080));
        cluster.endpoints(SERVICE, both);
        endpoints(&web, 2).await;
        traffic.answers(20).await;
        let last = std::mem::replace(&mut replica, next);
        last.end(&cluster, &web, has_hook, &replica).await;
    }
    let report = traffic.finish().await;
    assert!(report.failures.is_empty(), "{report:?}");
    println!("{number} restarts: {report:?}");
}
