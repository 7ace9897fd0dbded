//! The table of the admin server's endpoints.

use super::{Admin, env, log_level, metrics, origin, probes, reply, reply::Reply, shutdown, state};
use futures::future::LocalBoxFuture;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use std::net::SocketAddr;

/// An endpoint: one path, matched exactly; its handler reads the query.
pub(super) struct Endpoint {
    path: &'static str,
    /// One line, for the index.
    summary: &'static str,
    answer: for<'a> fn(&'a Admin, Asked) -> LocalBoxFuture<'a, Reply>,
}

/// A request and its client.
pub(super) struct Asked {
    pub(super) request: Request<Incoming>,
    pub(super) peer: SocketAddr,
}

impl Asked {
    /// Refuses requests that only this host may make, if they come from elsewhere or from another site's page in a
    /// local browser.
    pub(super) fn refuse_remote(&self, admin: &Admin) -> Option<Reply> {
        let local = self.peer.ip().to_canonical().is_loopback();
        if !local {
            return Some(reply::text(StatusCode::FORBIDDEN, LOCAL_ONLY));
        }
        self.refuse_foreign(admin)
    }

    /// Refuses requests that a browser makes for another site's page.
    pub(super) fn refuse_foreign(&self, admin: &Admin) -> Option<Reply> {
        origin::refuse_foreign(&self.request, admin.hostname.as_deref())
    }
}

/// Routes a request to its endpoint.
pub(super) async fn route(admin: &Admin, peer: SocketAddr, request: Request<Incoming>) -> Reply {
    let path = request.uri().path();
    match ENDPOINTS.iter().find(|endpoint| endpoint.path == path) {
        Some(endpoint) => (endpoint.answer)(admin, Asked { request, peer }).await,
        None => reply::empty(StatusCode::NOT_FOUND),
    }
}

/// The index of the endpoints.
fn index() -> Reply {
    let width = ENDPOINTS.iter().map(|e| e.path.len()).max().unwrap_or(0);
    let lines = ENDPOINTS
        .iter()
        .map(|e| format!("{:width$}  {}\n", e.path, e.summary));
    reply::text(StatusCode::OK, lines.collect::<String>())
}

const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/",
        summary: "this list",
        answer: |_, _| Box::pin(async { index() }),
    },
    Endpoint {
        path: "/live",
        summary: "whether the process runs",
        answer: |_, _| Box::pin(async { probes::live() }),
    },
    Endpoint {
        path: "/ready",
        summary: "whether it can do its work, or what it waits for",
        answer: |admin, _| Box::pin(async { probes::ready(admin) }),
    },
    Endpoint {
        path: "/metrics",
        summary: "metrics, as Prometheus text or OpenMetrics",
        answer: |admin, asked| Box::pin(async move { metrics::metrics(admin, &asked) }),
    },
    Endpoint {
        path: "/state",
        summary: "what the proxy knows and does right now, as JSON; from this host only",
        answer: |admin, asked| Box::pin(state::state(admin, asked)),
    },
    Endpoint {
        path: "/proxy-log-level",
        summary: "GET or PUT the filter of the log; from this host only",
        answer: |admin, asked| Box::pin(log_level::log_level(admin, asked)),
    },
    Endpoint {
        path: "/env.json",
        summary: "the environment it was started with; /env.json?NAME&NAME for some of it",
        answer: |admin, asked| Box::pin(async move { env::env(admin, &asked) }),
    },
    Endpoint {
        path: "/shutdown",
        summary: "POST to shut it down gracefully, where that is enabled; from this host only",
        answer: |admin, asked| Box::pin(async move { shutdown::shutdown(admin, &asked) }),
    },
];

const LOCAL_ONLY: &str = "Requests are only permitted from localhost.";
