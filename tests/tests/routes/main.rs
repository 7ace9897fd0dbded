//! Routes and filters of client policies.

#![allow(clippy::unwrap_used, missing_docs)]

mod errors;
mod failures;
mod grpc;
mod headers;
mod hosts;
mod many;
mod matches;
mod metrics;
mod redirects;
mod updates;

use linkerd_control::{HeaderChanges, Policy, Route, RouteFilter, RouteMatch, RouteRule};
use linkerd_tests::{Mesh, Reply, Server, reply};

/// A mesh with one policy for all targets, and the server behind it. The server answers with the name of the matching rule.
struct Routed {
    mesh: Mesh,
    server: Server,
}

impl Routed {
    async fn start(policy: Policy) -> Self {
        let server = Server::start(|request| async move {
            let rule = request.headers().get("x-rule");
            let rule = rule.map_or("", |name| name.to_str().unwrap());
            reply(rule.to_owned())
        })
        .await;
        let mesh = Mesh::with(&server).await;
        // A policy of `web` alone would take precedence over the policy of all targets.
        mesh.policy("web").unset();
        mesh.controller.any_policy().set(policy);
        Self { mesh, server }
    }

    /// A policy of one route.
    async fn with(rules: impl IntoIterator<Item = RouteRule>) -> Self {
        Self::start(policy(rules)).await
    }

    async fn get(&self, uri: &str) -> Reply {
        self.mesh.get(uri).await
    }
}

/// A policy of the service `web` with one route, `main`.
fn policy(rules: impl IntoIterator<Item = RouteRule>) -> Policy {
    Policy::balance("web", 80).route(route("main", rules))
}

fn route(name: &str, rules: impl IntoIterator<Item = RouteRule>) -> Route {
    rules.into_iter().fold(Route::new(name), Route::rule)
}

/// A rule that sends its name to the server, in the header `x-rule`.
fn named(name: &str, condition: RouteMatch) -> RouteRule {
    let tells = RouteFilter::request_headers(HeaderChanges::new().set("x-rule", name));
    RouteRule::new().when(condition).filter(tells)
}

/// The name of the matching rule, or a status other than 200.
fn outcome(reply: &Reply) -> &str {
    match reply.status.as_u16() {
        200 => reply.text(),
        _ => reply.status.as_str(),
    }
}
