//! Retries and timeouts of client policies.

#![allow(clippy::unwrap_used, missing_docs)]

mod bodies;
mod budgets;
mod grpc;
mod hedging;
mod limits;
mod profiles;
mod request_headers;
mod statuses;

use http::{Response, StatusCode};
use http_body_util::BodyExt;
use linkerd_control::{Policy, Route, RouteRetry, RouteRule};
use linkerd_tests::{Mesh, Reply, Server, body};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// A mesh with one service. Its server gives the listed responses, and then 200.
struct Retried {
    mesh: Mesh,
    server: Server,
    answers: Answers,
    bodies: Arc<Mutex<Vec<String>>>,
}

/// Next responses of the server: status and latency of each.
type Answers = Arc<Mutex<VecDeque<(u16, Duration)>>>;

const AT_ONCE: Duration = Duration::ZERO;
const NEVER: Duration = Duration::from_secs(600);

impl Retried {
    async fn start(policy: Policy) -> Self {
        let answers = Answers::default();
        let bodies = Arc::<Mutex<Vec<String>>>::default();
        let (script, received) = (answers.clone(), bodies.clone());
        let server = Server::start(move |request| {
            let next = script.lock().pop_front();
            let received = received.clone();
            async move {
                let read = request.into_body().collect().await;
                let text = read.map(|read| read.to_bytes()).unwrap_or_default();
                received
                    .lock()
                    .push(String::from_utf8_lossy(&text).into_owned());
                let (status, latency) = next.unwrap_or((200, AT_ONCE));
                tokio::time::sleep(latency).await;
                let mut response = Response::new(body(status.to_string()));
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                Ok(response)
            }
        })
        .await;
        let mesh = Mesh::with(&server).await;
        mesh.policy("web").set(policy);
        Self {
            mesh,
            server,
            answers,
            bodies,
        }
    }

    /// A mesh whose route has one rule.
    async fn with(rule: RouteRule) -> Self {
        Self::start(policy(rule)).await
    }

    /// Sets the statuses of the next responses, without latency.
    fn answer(&self, statuses: impl IntoIterator<Item = u16>) {
        let statuses = statuses.into_iter().map(|status| (status, AT_ONCE));
        *self.answers.lock() = statuses.collect();
    }

    async fn get(&self) -> Reply {
        self.mesh.get("http://web/").await
    }

    /// The value of a counter of retries.
    async fn counter(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let name = format!("outbound_http_route_retry_{name}_total");
        self.mesh.proxy.metrics().await.sum(&name, labels)
    }
}

fn policy(rule: RouteRule) -> Policy {
    Policy::balance("web", 80).route(Route::new("main").rule(rule))
}

/// A rule that retries 5xx twice.
fn retried() -> RouteRule {
    RouteRule::new().retry(RouteRetry::new(2).status(500..=599))
}
