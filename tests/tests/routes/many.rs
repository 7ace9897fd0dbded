//! Policies with very many rules.

use crate::{named, outcome, policy, route};
use linkerd_control::{Policy, RouteMatch};
use linkerd_tests::{Load, Mesh, SOON, Server, eventually, reply};
use std::time::Duration;

const RULES: usize = 10_000;

#[tokio::test]
async fn ten_thousand_rules_do_not_stall_a_running_load() {
    let server = Server::start(|request| async move {
        let rule = request.headers().get("x-rule").cloned();
        let rule = rule.map_or(String::new(), |name| name.to_str().unwrap().to_owned());
        reply(rule)
    })
    .await;
    let mesh = Mesh::with(&server).await;
    let load = Load::http1(&mesh, 4, Duration::from_millis(1), "http://web/");
    load.more(50).await;
    // One route for each host, as for a gateway; the last route is for all other hosts.
    let policy_of_hosts = |tag: &str| {
        let hosts = (0..RULES - 1).map(|n| {
            let name = format!("{tag}-{n}");
            route(&name, [named(&name, RouteMatch::prefix("/"))]).host(&format!("h{n}.test"))
        });
        let rest = route("rest", [named(tag, RouteMatch::prefix("/"))]);
        hosts
            .chain([rest])
            .fold(Policy::balance("web", 80), Policy::route)
    };
    // One rule for each path; the last rule is for all other paths.
    let policy_of_paths = |tag: &str| {
        let paths = (0..RULES - 1).map(|n| named(tag, RouteMatch::exact(format!("/{n}"))));
        let rest = [named(tag, RouteMatch::prefix("/"))];
        policy(paths.chain(rest).collect::<Vec<_>>())
    };
    for (tag, policy) in [
        ("hosts", policy_of_hosts("hosts")),
        ("paths", policy_of_paths("paths")),
        ("hosts again", policy_of_hosts("hosts again")),
    ] {
        mesh.policy("web").set(policy);
        eventually(SOON, "the rules apply", || async {
            (outcome(&mesh.get("http://web/").await) == tag).then_some(())
        })
        .await;
        load.more(50).await;
    }
    load.stop().await.assert_clean();
}
