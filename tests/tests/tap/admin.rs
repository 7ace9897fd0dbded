//! `/tap` of the admin server.

use super::Requests;
use http::Method;
use linkerd_tests::{
    AdminTap, Fail, Http1, Mesh, SOON, Server, empty, eventually, refused, request,
};
use serde_json::{Value, json};

#[tokio::test]
async fn each_request_is_told_from_its_endpoint_to_its_end() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let parameters = "method=GET&authority=web&path=/a&direction=outbound&headers=true&limit=1";
    let mut tap = AdminTap::open(mesh.proxy.admin.addr, parameters).await;
    let others = Requests::start(mesh.proxy.outbound, "http://web/b");
    let requests = Requests::start(mesh.proxy.outbound, "http://web/a/b?token=hidden");

    let request = tap.event().await.unwrap();
    assert_eq!(request["event"], "request");
    assert_eq!(request["direction"], "outbound");
    assert_eq!(request["authority"], "web");
    assert_eq!(request["path"], "/a/b");
    assert_eq!(request["destination"], server.addr().to_string());
    assert_eq!(
        request["destination_labels"]["tls"],
        "not_provided_by_service_discovery"
    );
    assert_eq!(request["route_labels"]["parent_name"], "web");
    let headers = request["headers"].as_array().unwrap();
    assert!(headers.contains(&json!(["authorization", "[redacted]"])));
    assert!(headers.contains(&json!(["x-tenant", "seven"])));
    assert!(!request.to_string().contains("hidden"), "{request}");

    let response = tap.event().await.unwrap();
    assert_eq!(
        (&response["event"], &response["status"]),
        (&json!("response"), &json!(200))
    );
    let end = tap.event().await.unwrap();
    assert_eq!(
        (&end["event"], &end["status"]),
        (&json!("end"), &json!(200))
    );
    assert_eq!(end["response_bytes"], 5);
    assert_eq!(end["id"], request["id"]);
    let closed = tap.event().await.unwrap();
    assert_eq!(closed, json!({ "event": "closed", "reason": "limit" }));
    drop((others, requests));
}

#[tokio::test]
async fn a_failure_is_told_with_its_reason() {
    let mesh = Mesh::start().await;
    let (refused, _guard) = refused();
    mesh.service("web", [refused]);
    let mut tap = AdminTap::open(mesh.proxy.admin.addr, "").await;
    let requests = Requests::start(mesh.proxy.outbound, "http://web/");
    let end = loop {
        let event = tap.event().await.unwrap();
        if event["event"] == "end" {
            break event;
        }
    };
    assert!(end["status"].as_u64().unwrap() >= 502, "{end}");
    assert!(end["reason"].is_string(), "{end}");
    assert!(!end["hint"].as_str().unwrap().is_empty(), "{end}");
    drop(requests);
}

#[tokio::test]
async fn a_stream_that_goes_on_is_told_before_it_ends_and_a_reset_by_its_client_as_such() {
    let server = Server::start(|_| std::future::pending::<Result<_, Fail>>()).await;
    let mesh = Mesh::with(&server).await;
    let mut tap = AdminTap::open(mesh.proxy.admin.addr, "to=127.0.0.0/8").await;
    let client = eventually(SOON, "a request is told", || async {
        let client = mesh.http2().await;
        let pending = client.clone();
        let sent = tokio::spawn(async move { pending.get("http://web/").await.map(|_| ()) });
        let tapped = linkerd_tests::ever(POLL, || async { is_tapped(&mesh).await }).await;
        tapped.map(|()| sent)
    })
    .await;
    let told = tap.event().await.unwrap();
    assert_eq!(told["event"], "request");
    client.abort();
    let end = loop {
        let event = tap.event().await.unwrap();
        if event["event"] == "end" {
            break event;
        }
    };
    assert_eq!(end["cancelled"], true);
    assert_eq!(end["reset"], "CANCEL");
    assert_eq!(end["status"], Value::Null);
}

/// Whether a tap has taken a request.
async fn is_tapped(mesh: &Mesh) -> Option<()> {
    let taps = mesh.proxy.admin.state().await["taps"].take();
    (taps["open"][0]["requests"].as_u64()? > 0).then_some(())
}

/// Opens a tap without reading it, and sends requests until events are dropped.
async fn stalled(mesh: &Mesh) -> AdminTap {
    let admin = mesh.proxy.admin;
    let tap = AdminTap::open(admin.addr, "headers=true&max_rps=1000000").await;
    let dropped = async || {
        let metrics = admin.metrics().await;
        metrics.sum("proxy_tap_events_dropped_total", &[])
    };
    let mut client = Http1::connect(mesh.proxy.outbound).await;
    let large = "x".repeat(1000);
    while dropped().await == 0.0 {
        for _ in 0..200 {
            let mut request = request(Method::GET, "http://web/", empty());
            for name in ["x-a", "x-b", "x-c", "x-d"] {
                request.headers_mut().insert(name, large.parse().unwrap());
            }
            assert_eq!(client.send(request).await.unwrap().status, 200);
        }
    }
    tap
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_events_and_no_request() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let tap = stalled(&mesh).await;
    let admin = mesh.proxy.admin;
    let state = admin.state().await["taps"].take();
    let open = &state["open"][0];
    assert_eq!(open["match"], "all requests");
    assert!(open["dropped"].as_u64().unwrap() > 0, "{state}");
    assert!(open["sent"].as_u64().unwrap() > 0, "{state}");
    assert!(
        open["age_ms"].is_u64() && open["client"].is_string(),
        "{state}"
    );
    drop(tap);
    eventually(SOON, "the tap leaves with its client", || async {
        let open = admin.state().await["taps"]["open"].take();
        (open == json!([])).then_some(())
    })
    .await;
    assert_eq!(mesh.get("http://web/").await.status, 200);
}

#[tokio::test]
async fn a_slow_client_is_told_what_it_has_missed() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let mut tap = AdminTap::open(mesh.proxy.admin.addr, "max_rps=1").await;
    let requests = Requests::start(mesh.proxy.outbound, "http://web/");
    let told = loop {
        let event = tap.event().await.unwrap();
        if event["event"] == "dropped" {
            break event;
        }
    };
    assert!(told["skipped_requests"].as_u64().unwrap() > 0, "{told}");
    drop(requests);
}

#[tokio::test]
async fn foreign_and_invalid_requests_are_refused() {
    let mesh = Mesh::start().await;
    let admin = mesh.proxy.admin;
    for (name, value) in [
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let mut request = request(Method::GET, &format!("http://{}/tap", admin.addr), empty());
        request.headers_mut().insert(name, value.parse().unwrap());
        let client = Http1::connect(admin.addr).await;
        let reply = client.host_form().send(request).await.unwrap();
        assert_eq!(reply.status, 403, "{name}");
    }
    assert_eq!(admin.request(Method::POST, "/tap", "").await.status, 405);
    let reply = admin.get("/tap?to=nowhere").await;
    assert_eq!(reply.status, 400);
    assert!(
        reply
            .text()
            .contains("to: \\\"nowhere\\\" is not an IP address"),
        "{}",
        reply.text()
    );

    let mut taps = Vec::new();
    for _ in 0..8 {
        taps.push(AdminTap::open(admin.addr, "").await);
    }
    // A further one takes the place of the oldest.
    let mut newest = AdminTap::open(admin.addr, "").await;
    let closed = taps[0].event().await.unwrap();
    assert_eq!(closed["event"], "closed");
    drop(taps);
    mesh.proxy.admin.get("/ready").await;
    assert!(tokio::time::timeout(POLL, newest.event()).await.is_err());
}

#[tokio::test]
async fn an_open_tap_does_not_hold_up_a_shutdown() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::with(&server).await;
    let _stalled = stalled(&mesh).await;
    let mut tap = AdminTap::open(mesh.proxy.admin.addr, "").await;
    mesh.proxy.terminate();
    let closed = tap.event().await.unwrap();
    assert_eq!(closed, json!({ "event": "closed", "reason": "shutdown" }));
    assert!(mesh.proxy.wait_exit(SOON).await.success());
    assert!(
        !mesh.proxy.log().contains("did not complete"),
        "{}",
        mesh.proxy.log()
    );
}

const POLL: std::time::Duration = std::time::Duration::from_millis(200);
