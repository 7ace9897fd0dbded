//! The budgets of a policy's retries.

use crate::{Retried, retried};
use futures::future::join_all;
use linkerd_control::{Policy, Route, RouteMatch, RouteRetry, RouteRule};
use linkerd_tests::{Server, reply, soon};
use tokio::time::Instant;

#[tokio::test]
async fn an_outage_with_retries_adds_no_more_requests_than_the_budget() {
    let retry = RouteRetry::new(3).status(500..=599);
    let web = Retried::with(RouteRule::new().retry(retry)).await;
    web.answer([503; 2000]);
    let start = Instant::now();
    let requests = 400;
    for reply in soon(join_all((0..requests).map(|_| web.get()))).await {
        assert_eq!(reply.status, 503, "{reply:?}");
    }
    let added = (web.server.requests() - requests) as f64;
    // The reserve of ten seconds, and what has come back to it since; shares of workers are rounded up.
    let most = (100.0 + 10.0 * start.elapsed().as_secs_f64()) * 1.5;
    assert!((50.0..=most).contains(&added), "{added} of {most}");
    assert_eq!(web.counter("requests", &[]).await, added);
    let skipped = web.counter("skipped", &[("reason", "budget")]).await;
    let limited = web.counter("limit_exceeded", &[]).await;
    assert_eq!(skipped + limited, requests as f64);
}

#[tokio::test]
async fn a_backend_that_fails_does_not_use_up_the_retries_of_other_routes() {
    let broken = Server::start(|_| async {
        let mut failed = reply("broken")?;
        *failed.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        Ok(failed)
    })
    .await;
    let web = Retried::with(retried()).await;
    web.mesh.service("broken", [broken.addr()]);
    let rule = retried().when(RouteMatch::prefix("/broken"));
    let policy = Policy::balance("web", 80)
        .route(Route::new("broken").rule(rule.to("broken", 80)))
        .route(Route::new("main").rule(retried()));
    web.mesh.policy("web").set(policy);
    let gets = (0..200).map(|_| web.mesh.get("http://web/broken"));
    for reply in soon(join_all(gets)).await {
        assert_eq!(reply.status, 503);
    }
    let labels = [("reason", "budget"), ("route_name", "broken")];
    assert!(web.counter("skipped", &labels).await > 0.0, "it is used up");
    for _ in 0..5 {
        web.answer([500]);
        assert_eq!(web.get().await.status, 200);
    }
    let state = web.mesh.proxy.admin.state().await;
    let shown = state.to_string();
    assert!(shown.contains("\"retries_left\":0"), "{shown}");
}
