//! The sample backends: small servers that identify themselves, and that can be stopped and started.

use crate::admin::{converse, infallible};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use linkerd_proxy_core::{drain, task::spawn_local};
use rand::RngExt;
use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    time::Duration,
};
use tokio::task::{AbortHandle, JoinSet};

/// The body of a backend's response.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// One backend. It serves until it is stopped or dropped.
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) service: &'static str,
    pub(super) addr: SocketAddr,
    pace: Pace,
    running: RefCell<Option<AbortHandle>>,
}

/// The time to respond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    typical: Duration,
    /// As a share of it, either way.
    jitter: f64,
}

impl Pace {
    /// A service without look-ups.
    pub(super) const QUICK: Self = Self::new(3);

    /// A service in another region, or in trouble.
    pub(super) const SLOW: Self = Self::new(60);

    const fn new(typical_ms: u64) -> Self {
        Self {
            typical: Duration::from_millis(typical_ms),
            jitter: 0.2,
        }
    }

    async fn pass(self) {
        let share = rand::rng().random_range(1.0 - self.jitter..1.0 + self.jitter);
        tokio::time::sleep(self.typical.mul_f64(share)).await;
    }
}

impl Backend {
    /// Serves on a listener. Must be called on a local runtime (`spawn_local`).
    pub(super) fn start(
        name: String,
        service: &'static str,
        pace: Pace,
        listener: TcpListener,
    ) -> io::Result<Self> {
        let backend = Self {
            name,
            service,
            addr: listener.local_addr()?,
            pace,
            running: RefCell::default(),
        };
        backend.run(listener)?;
        Ok(backend)
    }

    /// Closes the port and all connections at once, as a crash would.
    pub(super) fn stop(&self) {
        if let Some(running) = self.running.take() {
            running.abort();
        }
    }

    /// Serves again after a stop.
    pub(super) fn resume(&self) -> io::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        self.run(TcpListener::bind(self.addr)?)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.borrow().is_some()
    }

    fn run(&self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (name, pace): (Rc<str>, _) = (self.name.as_str().into(), self.pace);
        let answer = move |request| answer(name.clone(), pace, request);
        let task = spawn_local(accept(listener, answer));
        self.running.replace(Some(task.abort_handle()));
        Ok(())
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Serves connections until dropped, which closes them.
pub(super) async fn accept<A, F>(listener: tokio::net::TcpListener, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    // Connections end with this task, not by a drain.
    let (_signal, drain) = drain::channel();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (answer, drain) = (answer.clone(), drain.watch());
                connections.spawn_local(async move {
                    if let Err(error) = converse(stream, answer, READ_TIMEOUT, drain).await {
                        tracing::debug!(%error, "Connection to a sample backend closed");
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn answer(name: Rc<str>, pace: Pace, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/slow" => tokio::time::sleep(VERY_SLOW).await,
        _ => pace.pass().await,
    }
    let mut response = match path.as_str() {
        "/echo" => {
            let kind = request.headers().get(header::CONTENT_TYPE).cloned();
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            respond(kind, request.into_body().boxed_unsync())
        }
        "/stream" => respond(HeaderValue::from_static("text/event-stream"), events(&name)),
        _ => {
            let json = serde_json::json!({ "backend": &*name, "path": path });
            respond(
                HeaderValue::from_static("application/json"),
                whole(format!("{json}\n")),
            )
        }
    };
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(BACKEND, name);
    }
    response
}

/// A body in one piece.
pub(super) fn whole(text: String) -> Body {
    Full::from(text).map_err(infallible).boxed_unsync()
}

fn respond(kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Server-sent events, some time apart.
fn events(name: &str) -> Body {
    let name = name.to_owned();
    let events = futures::stream::unfold((name, 1), |(name, n)| async move {
        if n > EVENTS {
            return None;
        }
        if n > 1 {
            tokio::time::sleep(EVENT_PAUSE).await;
        }
        let event = format!("data: {{\"backend\":\"{name}\",\"event\":{n}}}\n\n");
        Some((Ok(Frame::data(Bytes::from(event))), (name, n + 1)))
    });
    StreamBody::new(events).boxed_unsync()
}

/// Header with the name of the backend.
pub(super) const BACKEND: &str = "x-backend";

/// Time that `/slow` takes.
const VERY_SLOW: Duration = Duration::from_secs(1);

const EVENTS: u32 = 5;
const EVENT_PAUSE: Duration = Duration::from_millis(300);

const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// More than the proxy opens for the rates that one thread can serve.
const MAX_CONNECTIONS: usize = 2_000;

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
