//! The table of the admin server's endpoints.

use super::{
    console,
    context::AdminContext,
    env, explain, log_level, logs, metrics, probes, reply,
    reply::Reply,
    request::{AdminClient, AdminRequest},
    shutdown, state, tap,
};
use crate::config::ConsoleAccess;
use futures::future::LocalBoxFuture;
use http::{Request, StatusCode};
use hyper::body::Incoming;

/// An endpoint: one path, matched exactly; its handler reads the query.
pub(super) struct AdminEndpoint {
    path: &'static str,
    /// One line, for the index.
    summary: &'static str,
    answer: for<'a> fn(&'a AdminContext, AdminRequest) -> LocalBoxFuture<'a, Reply>,
}

/// Routes a request to its endpoint.
pub(super) async fn route(
    admin: &AdminContext,
    client: AdminClient,
    request: Request<Incoming>,
) -> Reply {
    let request = AdminRequest {
        http: request,
        client,
    };
    let path = request.http.uri().path();
    match ENDPOINTS.iter().find(|endpoint| endpoint.path == path) {
        Some(endpoint) => (endpoint.answer)(admin, request).await,
        None => console(admin, &request),
    }
}

/// The file of the console at a path.
fn console(admin: &AdminContext, request: &AdminRequest) -> Reply {
    let name = match request.http.uri().path() {
        CONSOLE => Some(""),
        path => path.strip_prefix("/console/"),
    };
    match name.and_then(console::asset) {
        Some(asset) => console::serve(admin, request, asset),
        None => reply::text(
            StatusCode::NOT_FOUND,
            "There is no such path; / lists them.\n",
        ),
    }
}

/// The index of the endpoints.
fn index(admin: &AdminContext) -> Reply {
    let has_console = admin.console != ConsoleAccess::Off;
    let listed = ENDPOINTS
        .iter()
        .filter(|e| has_console || e.path != CONSOLE);
    let width = listed.clone().map(|e| e.path.len()).max().unwrap_or(0);
    let lines = listed.map(|e| format!("{:width$}  {}\n", e.path, e.summary));
    reply::text(StatusCode::OK, lines.collect::<String>())
}

const CONSOLE: &str = "/console";
const ENDPOINTS: &[AdminEndpoint] = &[
    AdminEndpoint {
        path: "/",
        summary: "this list",
        answer: |admin, _| Box::pin(async { index(admin) }),
    },
    AdminEndpoint {
        path: "/live",
        summary: "whether the process runs",
        answer: |_, _| Box::pin(async { probes::live() }),
    },
    AdminEndpoint {
        path: "/ready",
        summary: "whether it can do its work, or what it waits for",
        answer: |admin, _| Box::pin(async { probes::ready(admin) }),
    },
    AdminEndpoint {
        path: "/metrics",
        summary: "metrics, as Prometheus text or OpenMetrics",
        answer: |admin, request| Box::pin(async move { metrics::metrics(admin, &request) }),
    },
    AdminEndpoint {
        path: "/state",
        summary: "what the proxy knows and does right now, as JSON; from this host only by default",
        answer: |admin, request| Box::pin(state::state(admin, request)),
    },
    AdminEndpoint {
        path: CONSOLE,
        summary: "a page for the browser with all of it: load, failures, endpoints, explain; from this host only by default",
        answer: |admin, request| Box::pin(async move { console(admin, &request) }),
    },
    AdminEndpoint {
        path: "/explain",
        summary: "the route and backends that a request would meet: /explain?url=http://web/path; from this host only by default",
        answer: |admin, request| Box::pin(explain::explain(admin, request)),
    },
    AdminEndpoint {
        path: "/tap",
        summary: "requests as they happen, a line of JSON for each event: /tap?path=/api&limit=10; from this host only",
        answer: |admin, request| Box::pin(async move { tap::tap(admin, &request) }),
    },
    AdminEndpoint {
        path: "/proxy-log-level",
        summary: "GET or PUT the filter of the log; from this host only",
        answer: |admin, request| Box::pin(log_level::log_level(admin, request)),
    },
    AdminEndpoint {
        path: "/logs.json",
        summary: "events of the log as they happen: /logs.json?filter=warn,linkerd=debug; from this host only",
        answer: |admin, request| Box::pin(logs::logs(admin, request)),
    },
    AdminEndpoint {
        path: "/env.json",
        summary: "the environment it was started with; /env.json?NAME&NAME for some of it",
        answer: |admin, request| Box::pin(async move { env::env(admin, &request) }),
    },
    AdminEndpoint {
        path: "/shutdown",
        summary: "POST to shut it down gracefully, where that is enabled; from this host only",
        answer: |admin, request| Box::pin(async move { shutdown::shutdown(admin, &request) }),
    },
];
