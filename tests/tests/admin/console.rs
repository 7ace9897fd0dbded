//! The console, and the failures that it shows.

use http::Method;
use linkerd_tests::{Mesh, SOON, Server, eventually, get, refused};
use serde_json::Value;

#[tokio::test]
async fn the_console_is_served_with_a_policy_that_allows_nothing_else() {
    let mesh = Mesh::start().await;
    let index = mesh.proxy.admin.get("/").await;
    assert!(index.text().contains("/console"), "{}", index.text());
    for (path, kind) in [
        ("/console", "text/html; charset=utf-8"),
        ("/console/console.css", "text/css; charset=utf-8"),
        ("/console/console.js", "text/javascript; charset=utf-8"),
    ] {
        let file = mesh.proxy.admin.get(path).await;
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(file.header("content-type"), Some(kind));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert!(file.header("etag").is_some());
        let policy = file.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
    }
}

#[tokio::test]
async fn the_page_and_its_scripts_name_only_files_that_are_there() {
    let mesh = Mesh::start().await;
    let mut known = vec!["/console".to_owned()];
    for next in 0.. {
        let Some(path) = known.get(next).cloned() else {
            break;
        };
        let file = mesh.proxy.admin.get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        let text = file.text();
        let named = text.split('"').filter_map(|quoted| {
            let relative = quoted.strip_prefix("./");
            let name = relative.or_else(|| quoted.strip_prefix("/console/"))?;
            Some(format!("/console/{name}"))
        });
        for path in named {
            if !known.contains(&path) {
                known.push(path);
            }
        }
    }
    assert!(known.len() > 10, "{known:?}");
    for path in ["/console/", "/console/console.html", "/console/x.js"] {
        let status = mesh.proxy.admin.get(path).await.status;
        assert_eq!(
            status,
            if path == "/console/" { 200 } else { 404 },
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_configuration_has_every_value_with_its_source() {
    let mesh = Mesh::builder();
    let mesh = mesh.env("LINKERD2_PROXY_METRICS_RETAIN_IDLE", "7m");
    let mesh = mesh.start().await;
    let state = mesh.proxy.admin.get("/state?configuration").await;
    let state: Value = serde_json::from_str(state.text()).unwrap();
    let configuration = state["configuration"].as_array().unwrap();
    let row = |name: &str| {
        let found = configuration.iter().find(|row| row["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not there"))
    };
    let retain = row("LINKERD2_PROXY_METRICS_RETAIN_IDLE");
    assert_eq!(
        (&retain["value"], &retain["source"]),
        (&"7m".into(), &"environment".into())
    );
    let console = row("LINKERD_PROXY_ADMIN_CONSOLE");
    assert_eq!(
        (&console["value"], &console["source"]),
        (&"loopback".into(), &"default".into())
    );
    let workload = row("LINKERD2_PROXY_POLICY_WORKLOAD");
    assert_eq!(workload["source"], "environment");
}

#[tokio::test]
async fn the_console_refuses_the_names_of_other_sites() {
    let mesh = Mesh::start().await;
    let mut client = linkerd_tests::Http1::connect(mesh.proxy.admin.addr).await;
    let foreign = client.get("http://evil.example/console").await.unwrap();
    assert_eq!(foreign.status, 403, "{}", foreign.text());
}

#[tokio::test]
async fn the_console_can_be_turned_off() {
    let mesh = Mesh::builder();
    let mesh = mesh.env("LINKERD_PROXY_ADMIN_CONSOLE", "off").start().await;
    for path in ["/console", "/console/console.css", "/console/console.js"] {
        assert_eq!(mesh.proxy.admin.get(path).await.status, 404, "{path}");
    }
    let index = mesh.proxy.admin.get("/").await;
    assert!(!index.text().contains("/console"), "{}", index.text());
    assert_eq!(mesh.proxy.admin.get("/state").await.status, 200);
}

#[tokio::test]
async fn a_failed_request_is_among_the_last_failures_with_its_reason_and_hint() {
    let (addr, _guard) = refused();
    let mesh = Mesh::start().await;
    mesh.service("web", [addr]);
    // The targets of requests are recorded from the first view on.
    failures(&mesh).await;
    let mut request = get("http://web/pay?card=4111");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = request.headers_mut();
    headers.insert("traceparent", trace.parse().unwrap());
    let reply = mesh.http1().await.send(request).await.unwrap();
    assert!(reply.status.is_server_error());
    let failures = failures(&mesh).await;
    assert_eq!(failures["total"], 1, "{failures:#}");
    assert_eq!(failures["limit"], 1_000);
    let failure = &failures["last"][0];
    for (name, expected) in [
        ("direction", "outbound"),
        ("protocol", "http"),
        ("reason", "connect_refused"),
        ("destination", "web"),
        ("path", "/pay"),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(failure[name], expected, "{failures:#}");
    }
    assert_eq!(failure["status"], reply.status.as_u16());
    let hint = failure["hint"].as_str().unwrap();
    assert!(hint.contains("listening"), "{hint}");
    let detail = failure["detail"].as_str().unwrap();
    assert!(detail.contains(&addr.to_string()), "{detail}");
    assert!(!failures.to_string().contains("4111"), "{failures:#}");
}

#[tokio::test]
async fn hostile_hosts_and_paths_are_data_among_the_last_failures() {
    let mesh = Mesh::start().await;
    failures(&mesh).await;
    for (target, host, destination, path) in [
        ("/", "<b>evil</b>", "<b>evil</b>", "/"),
        ("/\"'&amp;{x}?q", "nosuch", "nosuch", "/\"'&amp;{x}"),
    ] {
        let mut wire = mesh.wire().await;
        let head = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        wire.send(head).await;
        eventually(SOON, "the failure is kept", || async {
            let failures = failures(&mesh).await;
            let failure = failures["last"].as_array()?.first()?.clone();
            let found = (&failure["destination"], &failure["path"]);
            (found == (&destination.into(), &path.into())).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_that_succeeds_is_no_failure_and_sections_can_be_chosen() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    assert_eq!(mesh.get("http://web/").await.status, 200);
    let chosen = mesh.proxy.admin.get("/state?failures&log").await;
    let chosen: Value = serde_json::from_slice(&chosen.body).unwrap();
    let names: Vec<_> = chosen.as_object().unwrap().keys().collect();
    assert_eq!(names, ["failures", "log"]);
    assert_eq!(chosen["failures"]["total"], 0);
    let posted = mesh.proxy.admin.request(Method::POST, "/console", "").await;
    assert_eq!(posted.status, 405);
}

async fn failures(mesh: &Mesh) -> Value {
    mesh.proxy.admin.state().await["failures"].clone()
}
