//! The admin server.

use http::Method;
use linkerd_tests::{Mesh, Proxy, SOON, Server, eventually};
use serde_json::Value;

#[tokio::test]
async fn a_proxy_that_runs_is_live_and_ready() {
    let mesh = Mesh::start().await;
    for (path, text) in [("/live", "live\n"), ("/ready", "ready\n")] {
        let reply = mesh.proxy.admin.get(path).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, text));
    }
}

#[tokio::test]
async fn metrics_can_be_had_compressed() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.get("http://web/").await;
    let plain = mesh.proxy.metrics().await;
    let compressed = mesh.proxy.admin.gzipped_metrics().await;
    for metrics in [plain, compressed] {
        let labels = [
            ("direction", "outbound"),
            ("authority", "web.default.svc.cluster.local"),
        ];
        let target = server.addr().to_string();
        assert_eq!(
            metrics.sum("request_total", &labels),
            1.0,
            "{}",
            metrics.text()
        );
        let labels = [
            ("status_code", "200"),
            ("classification", "success"),
            ("target_addr", &*target),
        ];
        assert_eq!(
            metrics.sum("response_total", &labels),
            1.0,
            "{}",
            metrics.text()
        );
        assert!(metrics.sum("process_start_time_seconds", &[]) > 0.0);
        assert!(
            metrics.sum(
                "tcp_open_total",
                &[("peer", "dst"), ("direction", "outbound")]
            ) >= 1.0
        );
        assert!(metrics.sum("response_latency_ms_count", &[("direction", "outbound")]) >= 1.0);
    }
}

#[tokio::test]
async fn the_state_tells_what_is_known_and_what_is_done() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    mesh.get("http://web/").await;
    let state = mesh.proxy.admin.state().await;
    let text = format!("{state:#}");
    let destination = &state["discovery"]["destinations"];
    assert!(
        destination
            .to_string()
            .contains("web.default.svc.cluster.local:80"),
        "{text}"
    );
    assert!(
        has_number(destination, &["age_ms", "age_seconds", "age_s"]),
        "no age: {text}"
    );
    assert!(
        state["policies"]["targets"].to_string().contains("web:80"),
        "{text}"
    );
    let balancer = find(&state["workers"], "balancer").unwrap_or_else(|| panic!("{text}"));
    let endpoint = &balancer["endpoints"][0];
    assert_eq!(endpoint["endpoint"], server.addr().to_string(), "{text}");
    assert_eq!(endpoint["state"], "ready", "{text}");
    assert!(endpoint["estimate_ms"].is_number(), "{text}");
    assert_eq!(endpoint["connections"]["open"], 1, "{text}");
    assert_eq!(balancer["queue"]["limit"], 10_000, "{text}");
    assert!(state["metrics"][0]["limit"].is_number(), "{text}");
}

#[tokio::test]
async fn the_state_tells_why_an_endpoint_is_not_used() {
    let (addr, _guard) = linkerd_tests::refused();
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.service("web", [addr, server.addr()]);
    eventually(SOON, "the endpoint is found out", || async {
        mesh.get("http://web/").await;
        let state = mesh.proxy.admin.state().await;
        let balancer = find(&state["workers"], "balancer")?;
        let endpoints = balancer["endpoints"].as_array()?;
        let down = endpoints
            .iter()
            .find(|found| found["endpoint"] == addr.to_string())?;
        let error = down["last_error"].as_str()?;
        (error.contains("refused") && down["retry_in_ms"].is_number()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_state_tells_what_a_connection_and_a_request_take() {
    let server = Server::says("hello").await;
    let mesh = Mesh::start().await;
    mesh.service("web", [server.addr()]);
    assert_eq!(mesh.get("http://web/").await.status, 200);
    let state = mesh.proxy.admin.state().await;
    for path in [
        "/outbound/future_bytes/connection",
        "/outbound/future_bytes/request/route",
        "/outbound/future_bytes/request/client",
        "/inbound/future_bytes/connection",
    ] {
        let size = state["workers"][0].pointer(path).and_then(Value::as_u64);
        assert!(size.is_some_and(|size| size > 0), "{path}: {size:?}");
    }
}

#[tokio::test]
async fn the_log_level_can_be_changed_while_it_runs() {
    let mesh = Mesh::start().await;
    let admin = mesh.proxy.admin;
    let reply = admin
        .request(Method::PUT, "/proxy-log-level", "linkerd=debug")
        .await;
    assert_eq!(reply.status, 204);
    assert!(
        admin
            .get("/proxy-log-level")
            .await
            .text()
            .contains("linkerd=debug")
    );
    mesh.get("http://nowhere/").await;
    mesh.proxy.wait_for_log("request failed").await;
    let reply = admin
        .request(Method::PUT, "/proxy-log-level", "linkerd=nonsense")
        .await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn the_environment_can_be_looked_at() {
    let mesh = Mesh::start().await;
    let reply = mesh
        .proxy
        .admin
        .get("/env.json?LINKERD2_PROXY_POLICY_WORKLOAD")
        .await;
    let env: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(env["LINKERD2_PROXY_POLICY_WORKLOAD"], "ns:pod");
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let mesh = Mesh::start().await;
    let admin = mesh.proxy.admin;
    assert_eq!(admin.get("/nothing").await.status, 404);
    assert_eq!(admin.get("/shutdown").await.status, 405);
    assert_eq!(
        admin.request(Method::POST, "/shutdown", "").await.status,
        404,
        "it is not enabled"
    );
    assert_eq!(admin.request(Method::POST, "/state", "").await.status, 405);
}

#[tokio::test]
async fn the_admin_server_survives_who_misuses_it() {
    let mesh = Mesh::start().await;
    for bytes in ["\0\0\0\0", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET"] {
        let mut wire = linkerd_tests::Wire::connect(mesh.proxy.admin.addr).await;
        wire.send(bytes).await;
        wire.abort();
    }
    assert_eq!(mesh.proxy.admin.get("/live").await.status, 200);
}

#[tokio::test]
async fn a_proxy_without_its_controller_is_ready_and_says_whom_it_has_not_reached() {
    let (control, _guard) = linkerd_tests::refused();
    let proxy = Proxy::builder(control).start_unready().await;
    eventually(SOON, "it is ready, as the incumbent is", || async {
        (proxy.admin.get("/ready").await.status == 200).then_some(())
    })
    .await;
    let line = format!("\nnot reached yet: destination controller {control} (");
    eventually(SOON, "it says whom it has not reached", || async {
        let reply = proxy.admin.get("/ready").await;
        assert_eq!(reply.status, 200, "it stays so");
        assert!(reply.text().starts_with("ready\n"), "{reply:?}");
        reply.text().contains(&line).then_some(())
    })
    .await;
}

/// The first value of a key, at any depth.
fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map
            .get(key)
            .or_else(|| map.values().find_map(|v| find(v, key))),
        Value::Array(values) => values.iter().find_map(|v| find(v, key)),
        _ => None,
    }
}

fn has_number(value: &Value, keys: &[&str]) -> bool {
    keys.iter()
        .any(|key| find(value, key).is_some_and(Value::is_number))
}

#[tokio::test]
async fn credentials_in_values_of_the_environment_are_masked() {
    let mesh = Mesh::builder()
        .env("DATABASE_URL", "postgres://me:hidden@db:5432/shop")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer hidden")
        .env("OTEL_RESOURCE_ATTRIBUTES", "password=hidden,zone=a")
        .start()
        .await;
    for path in ["/env.json", "/state"] {
        let reply = mesh.proxy.admin.get(path).await;
        assert!(!reply.text().contains("hidden"), "{path}");
    }
    let env: Value = serde_json::from_slice(&mesh.proxy.admin.get("/env.json").await.body).unwrap();
    assert_eq!(env["DATABASE_URL"], "postgres://***@db:5432/shop");
    assert_eq!(env["OTEL_RESOURCE_ATTRIBUTES"], "password=***,zone=a");
}

#[tokio::test]
async fn an_unknown_section_of_the_state_names_those_that_there_are() {
    let mesh = Mesh::start().await;
    let reply = mesh.proxy.admin.get("/state?workers&nope").await;
    assert_eq!(reply.status, 404);
    let text = reply.text();
    assert!(text.contains("nope") && text.contains("workers"), "{text}");
    assert!(text.contains("admin"), "{text}");
}

#[tokio::test]
async fn a_misspelt_log_level_is_refused_and_the_log_stays() {
    let mesh = Mesh::start().await;
    let admin = mesh.proxy.admin;
    let before = admin.get("/proxy-log-level").await;
    let put = admin
        .request(Method::PUT, "/proxy-log-level", "infoo")
        .await;
    assert_eq!(put.status, 400);
    assert!(put.text().contains("did you mean info"), "{}", put.text());
    let after = admin.get("/proxy-log-level").await;
    assert_eq!(after.text(), before.text());
}
