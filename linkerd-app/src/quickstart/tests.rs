//! The quickstart as a whole, with a stand-in for the proxy, and its servers one by one.

use super::{
    backend::{Backend, Pace},
    fetch::{self, Answer},
    *,
};
use crate::{
    admin::{self, AdminContext, StateSection},
    config,
};
use http::{Request, Response};
use hyper::body::Incoming;
use linkerd_proxy_core::{Readiness, drain, metrics::Registry, task::spawn_local};
use serde_json::json;
use std::{
    cell::Cell,
    error::Error,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};
use tokio::task::LocalSet;

/// Enough for a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn listener() -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Sends to the endpoints of the mesh file in turn, or to none.
struct InTurns {
    file: PathBuf,
    endpoints: usize,
}

impl StartProxy for InTurns {
    fn start(&mut self, env: config::Env) -> Result<ProxyAddresses, Box<dyn Error + Send + Sync>> {
        let config = config::Config::load(&env).expect("valid").config;
        assert!(config.control.destination.is_loopback);
        let text = fs::read_to_string(&self.file)?;
        let endpoints: Vec<SocketAddr> = text
            .lines()
            .filter_map(|line| {
                line.trim()
                    .strip_prefix("- ")?
                    .split(' ')
                    .next()?
                    .parse()
                    .ok()
            })
            .take(self.endpoints)
            .collect();
        let (outbound, admin) = (listener(), listener());
        let addresses = ProxyAddresses {
            outbound: outbound.local_addr()?,
            inbound: None,
            admin: admin.local_addr()?,
        };
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(LocalSet::new().run_until(async {
                spawn_local(serve_admin(admin, endpoints.clone()));
                let turn = Rc::new(Cell::new(0));
                let answer = move |request| forward(endpoints.clone(), turn.clone(), request);
                let outbound = tokio::net::TcpListener::from_std(outbound).unwrap();
                backend::accept(outbound, answer).await;
            }));
        });
        Ok(addresses)
    }
}

async fn serve_admin(listener: TcpListener, endpoints: Vec<SocketAddr>) {
    let collect = move || {
        let endpoints = endpoints.iter().map(|endpoint| {
            let endpoint = endpoint.to_string();
            json!({"endpoint": endpoint, "state": "ready", "estimate_ms": 3.0, "in_flight": 0})
        });
        let state = json!({ "backends": endpoints.collect::<Vec<_>>() });
        Box::pin(std::future::ready(state)) as futures::future::BoxFuture<'static, _>
    };
    let (_signal, drain) = drain::channel();
    let admin = AdminContext {
        connections: Default::default(),
        taps: crate::tap::TapRegistry::new(false),
        policy: None,
        registry: Registry::new(),
        retain: Duration::from_secs(600),
        readiness: Readiness::new(),
        unreached: Box::new(Vec::new),
        log: None,
        hostname: None,
        env: config::Env::default(),
        shutdown: None,
        explain: Box::new(|_| Box::pin(std::future::pending())),
        explain_inbound: Box::new(|_| serde_json::Value::Null),
        console: config::ConsoleAccess::Off,
        sections: vec![StateSection {
            name: "outbound",
            collect: Box::new(collect),
        }],
    };
    admin::serve(listener, Rc::new(admin), drain.watch()).await;
}

async fn forward(
    endpoints: Vec<SocketAddr>,
    turn: Rc<Cell<usize>>,
    request: Request<Incoming>,
) -> Response<backend::Body> {
    assert_eq!(request.uri(), "http://web.default.svc.cluster.local/");
    turn.set(turn.get() + 1);
    let Some(endpoint) = endpoints.get(turn.get() % endpoints.len().max(1)) else {
        let mut refusal = Response::new(backend::whole(String::new()));
        *refusal.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        return refusal;
    };
    let answer = get(*endpoint, "/").await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    let mut response = Response::new(backend::whole(text));
    *response.headers_mut() = answer.headers;
    response
}

async fn get(addr: SocketAddr, path: &str) -> Answer {
    fetch::once(addr, path, SOON).await.unwrap()
}

/// Whether a run of a second with this many endpoints succeeds.
fn run_with(endpoints: usize) -> Result<bool, BoxError> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mesh.yaml");
    let options = QuickstartOptions {
        once: true,
        seconds: 1,
        file: Some(file.clone()),
        ..QuickstartOptions::default()
    };
    try_run(options, InTurns { file, endpoints })
}

#[test]
fn a_run_in_which_all_backends_answer_is_good() {
    assert!(run_with(4).unwrap());
}

#[test]
fn a_backend_that_gets_nothing_is_a_failure() {
    assert!(!run_with(3).unwrap());
}

#[test]
fn requests_that_fail_are_a_failure() {
    assert!(!run_with(0).unwrap());
}

#[test]
fn what_keeps_it_from_starting_is_told() {
    struct Broken;
    impl StartProxy for Broken {
        fn start(
            &mut self,
            _: config::Env,
        ) -> Result<ProxyAddresses, Box<dyn Error + Send + Sync>> {
            Err("no proxy today".into())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let options = QuickstartOptions {
        once: true,
        file: Some(dir.path().join("mesh.yaml")),
        ..QuickstartOptions::default()
    };
    let error = try_run(options.clone(), Broken).unwrap_err();
    assert_eq!(error.to_string(), "no proxy today");

    let file = options.file.clone().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("port: 80", "port: 0")).unwrap();
    let error = try_run(options, Broken).unwrap_err().to_string();
    assert!(
        error.contains("mesh.yaml:") && error.contains("0 is not a port"),
        "{error}"
    );
}

#[test]
fn a_rate_of_nothing_is_refused() {
    let options = QuickstartOptions {
        rate: 0,
        ..QuickstartOptions::default()
    };
    struct Never;
    impl StartProxy for Never {
        fn start(
            &mut self,
            _: config::Env,
        ) -> Result<ProxyAddresses, Box<dyn Error + Send + Sync>> {
            panic!("nothing is started")
        }
    }
    let error = try_run(options, Never).unwrap_err().to_string();
    assert!(error.contains("--rate"), "{error}");
}

#[tokio::test]
async fn backends_say_who_they_are() {
    let test = async {
        let backend = Backend::start("web-1".into(), "web", Pace::QUICK, listener()).unwrap();
        let answer = get(backend.addr, "/a/b").await;
        assert_eq!(answer.headers[backend::BACKEND], "web-1");
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(
            &answer.body[..],
            b"{\"backend\":\"web-1\",\"path\":\"/a/b\"}\n"
        );

        let events = get(backend.addr, "/stream").await;
        assert_eq!(events.headers["content-type"], "text/event-stream");
        let text = std::str::from_utf8(&events.body).unwrap();
        assert_eq!(text.matches("data: {").count(), 5);
        assert!(text.ends_with("\"event\":5}\n\n"));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn backends_echo_over_http2() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let test = async {
        let backend = Backend::start("web-1".into(), "web", Pace::QUICK, listener()).unwrap();
        let stream = tokio::net::TcpStream::connect(backend.addr).await.unwrap();
        let io = TokioIo::new(stream);
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
        let (mut client, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("http://web/echo").header("content-type", "text/plain");
        let request = request.body(Full::<bytes::Bytes>::from("hello")).unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/plain");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"hello");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn backends_are_stopped_and_started() {
    let test = async {
        let backend =
            |name: &str| Backend::start(name.into(), "web", Pace::QUICK, listener()).unwrap();
        let backends: Rc<[Backend]> = [backend("web-1"), backend("web-2")].into();
        let addr = backends[0].addr;
        let port = addr.port();
        let switched = switch::Switched::default();
        let socket = listener();
        let at = socket.local_addr().unwrap();
        let server = switch::serve(socket, backends.clone(), switched.clone());
        spawn_local(server);

        let list = get(at, "/").await;
        let text = String::from_utf8(list.body.to_vec()).unwrap();
        assert!(text.starts_with(&format!(
            "web-1 on {addr} is running; /stop/{port} to stop it\n"
        )));

        let mut open = fetch::Client::connect(addr).await.unwrap();
        let uri = "/".parse().unwrap();
        open.get(&uri, "web").await.unwrap();
        for _ in 0..2 {
            let stopped = get(at, &format!("/stop/{port}")).await;
            assert_eq!(
                &stopped.body[..],
                format!("web-1 on {addr} is stopped\n").as_bytes()
            );
        }
        assert!(open.get(&uri, "web").await.is_err(), "connections end, too");
        assert!(fetch::once(addr, "/", SOON).await.is_err());

        for _ in 0..2 {
            assert_eq!(get(at, "/start/web-1").await.status, 200);
        }
        assert_eq!(get(addr, "/").await.status, 200);
        assert_eq!(switched.borrow().len(), 4);
        assert_eq!(get(at, "/stop/1").await.status, 404);
        assert_eq!(get(at, &format!("/what/{port}")).await.status, 404);
        assert_eq!(get(backends[1].addr, "/").await.status, 200);
    };
    LocalSet::new().run_until(test).await;
}
