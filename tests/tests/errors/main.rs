//! The proxy's own responses, by reason.

#![allow(clippy::unwrap_used, missing_docs)]

mod clients;
mod counters;
mod dialling;
mod endpoints;
mod policies;

use linkerd_tests::{Mesh, Reply};

/// Requirements of a response made by the proxy.
struct Expect {
    status: u16,
    /// The `reason` label, which is also in `proxy-status`.
    reason: &'static str,
    /// The end of `l5d-proxy-error`.
    text: &'static str,
    /// Whether the response closes the connection.
    closes: bool,
}

impl Expect {
    async fn check(&self, mesh: &Mesh, reply: &Reply) {
        let header = |name| reply.header(name).unwrap_or_default();
        assert_eq!(reply.status, self.status, "{reply:?}");
        assert!(header("l5d-proxy-error").ends_with(self.text), "{reply:?}");
        let status = header("proxy-status");
        assert!(status.starts_with("linkerd-proxy; error="), "{reply:?}");
        assert!(
            status.contains(&format!("details=\"{}\"", self.reason)),
            "{reply:?}"
        );
        let close = self.closes.then_some("close");
        assert_eq!(reply.header("l5d-proxy-connection"), close, "{reply:?}");
        if reply.version == http::Version::HTTP_11 {
            assert_eq!(reply.header("connection"), close, "{reply:?}");
        }
        // The body states the reason for clients of the explicit proxy; gRPC has trailers.
        let length = reply.body.len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length), "{reply:?}");
        if !reply.headers.contains_key("grpc-status") {
            let line = format!("\nreason: {}\n", self.reason);
            assert!(reply.text().contains(&line), "{reply:?}");
        }
        let labels = [("reason", self.reason)];
        mesh.proxy
            .metric_reaches("proxy_failures_total", &labels, 1.0)
            .await;
    }
}
