//! Every row of the table of endpoints, over real sockets.

mod client;
mod connections;
mod console;
mod explain;
mod foreign;

use super::{
    request::{AdminClient, READ_TIMEOUT},
    *,
};
use crate::{
    config::{ConsoleAccess, Env, LogConfig},
    logging,
};
use client::{Answer, get, request};
use linkerd_proxy_core::{
    metrics::{Labels, Registry, RegistryStyle},
    readiness::Readiness,
    task::spawn_local,
};
use serde_json::{Value, json};
use std::{
    io::Read,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::{Arc, OnceLock},
};
use tokio::{sync::mpsc, task::LocalSet};

/// Enough for a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn admin() -> AdminContext {
    AdminContext {
        connections: Default::default(),
        policy: None,
        registry: Registry::new(),
        retain: Duration::from_secs(600),
        readiness: Readiness::new(),
        unreached: Box::new(Vec::new),
        log: None,
        hostname: Some("web-1".to_owned()),
        env: Env::default(),
        shutdown: None,
        explain: explain::explainer(),
        explain_inbound: Box::new(|_| json!("inbound")),
        console: ConsoleAccess::Loopback,
        taps: crate::tap::TapRegistry::new(false),
        sections: Vec::new(),
    }
}

/// Runs a test against a server.
async fn with<F: Future>(admin: AdminContext, test: impl FnOnce(SocketAddr) -> F) -> F::Output {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let (_signal, drain) = drain::channel();
    let test = async {
        spawn_local(serve(listener, Rc::new(admin), drain.watch()));
        tokio::time::timeout(SOON, test(addr))
            .await
            .expect("in time")
    };
    LocalSet::new().run_until(test).await
}

/// The response to one request of a peer with the given address.
async fn from(peer: &str, admin: AdminContext, head: &str) -> Answer {
    let peer = SocketAddr::new(peer.parse::<IpAddr>().unwrap(), 12345);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let addr = listener.local_addr().unwrap();
    let (_signal, drain) = drain::channel();
    let admin = Rc::new(admin);
    let test = async {
        spawn_local(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = move |request| {
                let admin = admin.clone();
                async move { router::route(&admin, AdminClient::new(peer), request).await }
            };
            converse(stream, answer, READ_TIMEOUT, drain.watch())
                .await
                .unwrap();
        });
        request(addr, head, "").await
    };
    LocalSet::new().run_until(test).await
}

#[tokio::test]
async fn live_and_unknown_paths() {
    with(admin(), |addr| async move {
        for method in ["GET", "POST", "HEAD"] {
            let live = request(addr, &format!("{method} /live?x=1"), "").await;
            assert_eq!((live.status, live.kind()), (200, Some("text/plain")));
            assert!(live.header("date").is_some());
            assert_eq!(live.header("content-length"), Some("5"));
        }
        assert_eq!(get(addr, "/live").await.text(), "live\n");
        for path in ["/live/", "/nothing", "/tasks"] {
            let unknown = get(addr, path).await;
            assert_eq!(unknown.status, 404);
            assert_eq!(unknown.text(), "There is no such path; / lists them.\n");
        }
        let disabled = get(addr, "/logs.json").await;
        assert_eq!(disabled.status, 404);
        assert!(disabled.text().contains("LINKERD2_PROXY_LOG"));
    })
    .await;
}

#[tokio::test]
async fn ready_tells_what_is_pending() {
    let admin = admin();
    let readiness = admin.readiness.clone();
    let pending = readiness.wait_for("control plane: destination");
    let other = readiness.wait_for("identity");
    with(admin, |addr| async move {
        let ready = get(addr, "/ready").await;
        assert_eq!((ready.status, ready.kind()), (503, None));
        assert_eq!(
            ready.text(),
            "not ready\ncontrol plane: destination\nidentity\n"
        );
        drop((pending, other));
        let ready = get(addr, "/ready").await;
        assert_eq!((ready.status, ready.kind()), (200, Some("text/plain")));
        assert_eq!(ready.text(), "ready\n");
        readiness.drain();
        assert_eq!(
            get(addr, "/ready").await.text(),
            "not ready\nshutting down\n"
        );
    })
    .await;
}

#[tokio::test]
async fn ready_names_the_controllers_that_were_not_reached() {
    let unreached = || AdminContext {
        unreached: Box::new(|| vec!["destination controller a:1 (refused)".to_owned()]),
        ..admin()
    };
    let line = "not reached yet: destination controller a:1 (refused)\n";
    with(unreached(), |addr| async move {
        let ready = get(addr, "/ready").await;
        assert_eq!((ready.status, ready.kind()), (200, Some("text/plain")));
        assert_eq!(ready.text(), format!("ready\n{line}"));
    })
    .await;
    let admin = unreached();
    let _pending = admin.readiness.wait_for("start");
    with(admin, |addr| async move {
        let text = format!("not ready\nstart\n{line}");
        assert_eq!(get(addr, "/ready").await.text(), text);
    })
    .await;
}

#[tokio::test]
async fn large_metrics_come_in_pieces_and_whole() {
    let admin = admin();
    let family = admin
        .registry
        .counter(RegistryStyle::Legacy, "x_total", "X");
    let handles: Vec<_> = (0..5_000)
        .map(|n| family.get(Labels::new().with("endpoint", n)))
        .collect();
    handles.iter().for_each(|handle| handle.add(3));
    with(admin, |addr| async move {
        let plain = get(addr, "/metrics").await;
        assert_eq!((plain.status, plain.kind()), (200, Some("text/plain")));
        assert_eq!(plain.header("content-length"), None);
        let packed = request(addr, "GET /metrics\r\naccept-encoding: gzip", "").await;
        let mut text = String::new();
        let mut gzip = flate2::read::GzDecoder::new(&packed.body[..]);
        gzip.read_to_string(&mut text).unwrap();
        assert_eq!(text, plain.text());
        for n in [0, 2_500, 4_999] {
            assert!(
                text.contains(&format!("x_total{{endpoint=\"{n}\"}} 3\n")),
                "{n}"
            );
        }
        assert_eq!(text.lines().count(), 2 + 5_000 + 1);
        assert!(text.ends_with("# EOF\n"));
    })
    .await;
}

#[tokio::test]
async fn openmetrics_is_for_who_asks_for_it() {
    let admin = admin();
    let counter = admin
        .registry
        .counter(RegistryStyle::Legacy, "x_total", "X");
    let _counter = counter.get(Labels::new());
    with(admin, |addr| async move {
        let plain = get(addr, "/metrics").await;
        assert!(plain.text().contains("# TYPE x_total counter\nx_total 0\n"));
        let ask = "GET /metrics\r\naccept: application/openmetrics-text; version=1.0.0";
        let open = request(addr, ask, "").await;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(open.kind(), Some(kind));
        assert!(open.text().contains("# TYPE x counter\nx_total 0\n"));
        assert!(open.text().ends_with("# EOF\n"));
    })
    .await;
}

#[tokio::test]
async fn metrics_are_text_and_compressed_on_request() {
    let admin = admin();
    let counter = admin
        .registry
        .counter(RegistryStyle::Legacy, "x_total", "X");
    let counter = counter.get(Labels::new());
    counter.add(3);
    with(admin, |addr| async move {
        let plain = get(addr, "/metrics").await;
        assert_eq!((plain.status, plain.kind()), (200, Some("text/plain")));
        assert_eq!(plain.header("content-encoding"), None);
        assert!(plain.text().contains("x_total 3\n") && plain.text().ends_with("# EOF\n"));
        for accept in ["gzip", "deflate, gzip;q=0.5"] {
            let head =
                format!("GET /metrics\r\naccept-encoding: identity\r\naccept-encoding: {accept}");
            let packed = request(addr, &head, "").await;
            assert_eq!(packed.header("content-encoding"), Some("gzip"));
            assert_eq!(packed.kind(), Some("text/plain"));
            let mut text = String::new();
            let mut gzip = flate2::read::GzDecoder::new(&packed.body[..]);
            gzip.read_to_string(&mut text).unwrap();
            assert_eq!(text, plain.text());
        }
    })
    .await;
}

/// The logger is global, so that all its tests are one.
#[tokio::test]
async fn the_log_level_is_told_and_replaced() {
    static LOGGER: OnceLock<Option<logging::Logger>> = OnceLock::new();
    let log = LogConfig::load(&Env::from_iter([("LINKERD2_PROXY_LOG", "error")]));
    let install = || logging::install(&log, logging::LogClock::Uptime).unwrap();
    let logger = LOGGER.get_or_init(install);
    let logs = || AdminContext {
        log: logger.clone(),
        ..admin()
    };
    with(logs(), |addr| async move {
        let path = "/proxy-log-level";
        let level = get(addr, path).await;
        assert_eq!((level.status, level.kind()), (200, None));
        assert_eq!(level.text(), "_access_log=off,error");

        let set = request(addr, "PUT /proxy-log-level", "linkerd=error\n").await;
        assert_eq!((set.status, set.text()), (204, ""));
        assert_eq!(
            get(addr, path).await.text(),
            "_access_log=off,linkerd=error"
        );

        let bad = request(addr, "PUT /proxy-log-level", "linkerd=loud").await;
        assert_eq!(bad.status, 400);
        assert!(!bad.text().is_empty());
        let bad = request(addr, "PUT /proxy-log-level", b"\xff\xfe").await;
        assert_eq!(bad.status, 400);
        let bad = request(
            addr,
            "PUT /proxy-log-level",
            vec![b'x'; super::request::MAX_BODY + 1],
        )
        .await;
        assert_eq!(bad.status, 413);
        assert_eq!(
            get(addr, path).await.text(),
            "_access_log=off,linkerd=error"
        );

        let other = request(addr, "POST /proxy-log-level", "error").await;
        assert_eq!(other.status, 405);
        assert_eq!(other.headers("allow"), ["GET", "PUT"]);
    })
    .await;
    let remote = from("10.0.0.1", logs(), "GET /proxy-log-level").await;
    assert_eq!(remote.status, 403);
    with(admin(), |addr| async move {
        let off = get(addr, "/proxy-log-level").await;
        assert_eq!((off.status, off.text()), (404, ""));
    })
    .await;
}

#[tokio::test]
async fn the_environment_is_json() {
    let env = || AdminContext {
        env: Env::from_iter([
            ("B", "2"),
            ("A", "1"),
            ("C", ""),
            ("LINKERD2_PROXY_LOG", "info"),
        ]),
        ..admin()
    };
    with(env(), |addr| async move {
        for (path, expected) in [
            (
                "/env.json",
                json!({"A": "1", "B": "2", "C": "", "LINKERD2_PROXY_LOG": "info"}),
            ),
            ("/env.json?A&NONE", json!({"A": "1", "NONE": null})),
        ] {
            let env = get(addr, path).await;
            assert_eq!((env.status, env.kind()), (200, Some("application/json")));
            assert_eq!(env.json(), expected);
        }
        let pair = get(addr, "/env.json?A=1").await;
        assert_eq!((pair.status, pair.kind()), (400, Some("application/json")));
        let error = "env.json query parameters may not contain key-value pairs";
        assert_eq!(
            pair.text(),
            json!({"error": error, "status": 400}).to_string()
        );

        let other = request(addr, "POST /env.json", "").await;
        assert_eq!((other.status, other.text()), (405, "Use GET here.\n"));
        for (accept, status) in [
            ("application/json", 200),
            ("text/html, application/*;q=0.1", 200),
            ("*/*", 200),
            ("text/html", 406),
        ] {
            let env = request(addr, &format!("GET /env.json\r\naccept: {accept}"), "").await;
            assert_eq!(env.status, status, "{accept}");
            assert!(status == 200 || env.text() == "application/json");
        }
        let strange = request(addr, b"GET /env.json\r\naccept: \xff", "").await;
        assert_eq!(
            (strange.status, &strange.json()["status"]),
            (400, &json!(400))
        );
    })
    .await;
    let remote = from("10.0.0.1", env(), "GET /env.json").await;
    assert_eq!(remote.status, 200, "the incumbent shows it to everybody");
    assert_eq!(remote.json(), json!({"LINKERD2_PROXY_LOG": "info"}));
    let named = from("10.0.0.1", env(), "GET /env.json?A").await;
    assert_eq!(named.json(), json!({"A": null}));
}

#[tokio::test]
async fn shutdown_is_asked_for() {
    let (tx, mut rx) = mpsc::channel(1);
    let enabled = || AdminContext {
        shutdown: Some(tx.clone()),
        ..admin()
    };
    with(enabled(), |addr| async move {
        let other = get(addr, "/shutdown").await;
        assert_eq!((other.status, other.text()), (405, "Use POST here.\n"));
        for _ in 0..2 {
            let asked = request(addr, "POST /shutdown", "").await;
            assert_eq!((asked.status, asked.kind()), (200, Some("text/plain")));
            assert_eq!(asked.text(), "shutdown\n");
        }
        assert!(rx.recv().await.is_some());
        drop(rx);
        let gone = request(addr, "POST /shutdown", "").await;
        assert_eq!(
            (gone.status, gone.text()),
            (500, "shutdown listener dropped\n")
        );
    })
    .await;
    let get = from("10.0.0.1", enabled(), "GET /shutdown").await;
    assert_eq!(get.status, 405, "the method is looked at first");
    let post = from("10.0.0.1", enabled(), "POST /shutdown").await;
    assert_eq!(post.status, 403);
    with(admin(), |addr| async move {
        let disabled = request(addr, "POST /shutdown", "").await;
        assert_eq!(
            (disabled.status, disabled.kind()),
            (404, Some("text/plain"))
        );
        assert_eq!(disabled.text(), "shutdown endpoint is not enabled: LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED=true enables it\n");
    })
    .await;
}

#[tokio::test]
async fn what_is_local_is_refused_from_elsewhere() {
    for path in ["/proxy-log-level", "/logs.json", "/state"] {
        for peer in ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
            let remote = from(peer, admin(), &format!("GET {path}")).await;
            assert_eq!((remote.status, remote.kind()), (403, Some("text/plain")));
            assert_eq!(remote.text(), "Requests are only permitted from localhost.");
        }
        for peer in ["127.0.0.9", "::1", "::ffff:127.0.0.1"] {
            let local = from(peer, admin(), &format!("GET {path}")).await;
            assert_ne!(local.status, 403, "{peer}");
        }
    }
}

#[tokio::test]
async fn the_state_has_a_key_for_each_section() {
    fn section(
        name: &'static str,
        collect: impl Fn() -> Value + Send + Sync + 'static,
    ) -> StateSection {
        let collect = Arc::new(collect);
        StateSection {
            name,
            collect: Box::new(move || {
                let collect = collect.clone();
                Box::pin(async move { collect() })
            }),
        }
    }
    let stuck = StateSection {
        name: "stuck",
        collect: Box::new(|| Box::pin(std::future::pending())),
    };
    let admin = AdminContext {
        sections: vec![
            section("outbound", || json!({"backends": []})),
            stuck,
            section("broken", || panic!("a test")),
        ],
        ..admin()
    };
    with(admin, |addr| async move {
        let state = get(addr, "/state").await;
        assert_eq!(
            (state.status, state.kind()),
            (200, Some("application/json"))
        );
        let expected = json!({
            "admin": {"connections": {"limit": 100, "open": 1}, "handshakes": null},
            "broken": {"error": "collecting this section panicked"},
            "outbound": {"backends": []},
            "stuck": {"error": "no answer within 1s"},
        });
        assert_eq!(state.text(), format!("{expected:#}\n"));
        assert_eq!(request(addr, "PUT /state", "").await.status, 405);
    })
    .await;
}

#[tokio::test]
async fn the_index_lists_the_endpoints() {
    with(admin(), |addr| async move {
        let index = get(addr, "/").await;
        assert_eq!((index.status, index.kind()), (200, Some("text/plain")));
        let listed: Vec<_> = index
            .text()
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(
            listed,
            [
                "/",
                "/live",
                "/ready",
                "/metrics",
                "/state",
                "/console",
                "/explain",
                "/tap",
                "/proxy-log-level",
                "/logs.json",
                "/env.json",
                "/shutdown"
            ]
        );
    })
    .await;
}
