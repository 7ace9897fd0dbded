//! Circuit breakers and load penalties of client policies.

#![allow(clippy::unwrap_used, missing_docs)]

mod floor;
mod grpc;
mod penalties;
mod probes;
mod trips;

use http::Response;
use linkerd_control::{Breaker, Policy};
use linkerd_tests::{Mesh, Reply, Server, body};
use parking_lot::Mutex;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// A time within which no ejection ends in a test.
const LONG: Duration = Duration::from_secs(600);

/// A server whose answers the test sets.
struct Endpoint {
    server: Server,
    answer: Arc<Mutex<(u16, Option<&'static str>)>>,
}

impl Endpoint {
    async fn start(status: u16) -> Self {
        let answer = Arc::new(Mutex::new((status, None)));
        let given = answer.clone();
        let server = Server::start(move |_| {
            let (status, retry_after) = *given.lock();
            async move {
                let mut answer = Response::builder().status(status);
                if let Some(hint) = retry_after {
                    answer = answer.header("retry-after", hint);
                }
                Ok(answer.body(body("answer")).unwrap())
            }
        })
        .await;
        Self { server, answer }
    }

    fn answers(&self, status: u16) {
        *self.answer.lock() = (status, None);
    }

    fn answers_with_hint(&self, status: u16, retry_after: &'static str) {
        *self.answer.lock() = (status, Some(retry_after));
    }

    /// The endpoint's entry in `/state`.
    async fn state(&self, mesh: &Mesh) -> Value {
        let addr = self.server.addr().to_string();
        let state = mesh.proxy.admin.state().await;
        find(&state["workers"], &addr).unwrap_or_else(|| panic!("no {addr} in {state}"))
    }
}

/// A mesh whose service `web` has this policy and these endpoints. Requests wait for an endpoint for a short time.
async fn mesh(policy: Policy, endpoints: &[&Endpoint]) -> Mesh {
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service(
        "web",
        endpoints.iter().map(|endpoint| endpoint.server.addr()),
    );
    mesh.policy("web").set(policy);
    mesh
}

fn policy(breaker: Breaker) -> Policy {
    Policy::balance("web", 80).failure_accrual(breaker)
}

/// Sends sequential requests; returns their statuses.
async fn statuses(mesh: &Mesh, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(get(mesh).await.status.as_u16());
    }
    statuses
}

async fn get(mesh: &Mesh) -> Reply {
    mesh.get("http://web/").await
}

/// The endpoint with this address below a value of `/state`.
fn find(value: &Value, addr: &str) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.get("endpoint").is_some_and(|found| found == addr) => {
            Some(value.clone())
        }
        Value::Object(fields) => fields.values().find_map(|value| find(value, addr)),
        Value::Array(values) => values.iter().find_map(|value| find(value, addr)),
        _ => None,
    }
}
