//! The admin server of the embedded controller: probes and metrics, which other hosts may read.

use super::{
    accept,
    reply::{self, Reply},
};
use http::{HeaderValue, Method, Request, StatusCode, header};
use linkerd_proxy_core::metrics::Registry;
use std::{cell::Cell, time::Duration};
use tokio::time::Instant;

/// The state that the admin server of a controller shows.
#[derive(Default)]
pub struct ControllerAdmin {
    /// The metrics.
    pub registry: Registry,
    is_ready: Cell<bool>,
}

impl ControllerAdmin {
    /// Notes that the controller serves proxies: `/ready` is 200 from now on.
    pub fn ready(&self) {
        self.is_ready.set(true);
    }

    pub(super) fn answer<B>(&self, request: &Request<B>) -> Reply {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return reply::not_allowed(&[Method::GET, Method::HEAD]);
        }
        match request.uri().path() {
            "/" => reply::text(StatusCode::OK, INDEX),
            "/live" => reply::text(StatusCode::OK, "live\n"),
            "/ready" if self.is_ready.get() => reply::text(StatusCode::OK, "ready\n"),
            "/ready" => reply::bare(StatusCode::SERVICE_UNAVAILABLE, NOT_READY),
            "/metrics" => self.metrics(request),
            _ => reply::text(
                StatusCode::NOT_FOUND,
                "There is no such path; / lists them.\n",
            ),
        }
    }

    /// All metrics: some kilobytes, whatever the mesh has.
    fn metrics<B>(&self, request: &Request<B>) -> Reply {
        let format = accept::format(request.headers(), false);
        let document = self
            .registry
            .render_as(format, Duration::ZERO, Instant::now());
        let mut reply = reply::text(StatusCode::OK, document);
        if let Some(kind) = accept::content_type(format) {
            let kind = HeaderValue::from_static(kind);
            reply.headers_mut().insert(header::CONTENT_TYPE, kind);
        }
        reply
    }
}

const INDEX: &str = "\
/live     whether the process runs
/ready    whether it serves proxies, or waits for addresses of the mesh file
/metrics  metrics, as Prometheus text or OpenMetrics
";

const NOT_READY: &str = "not ready\nhost names of the mesh file have no addresses yet\n";
