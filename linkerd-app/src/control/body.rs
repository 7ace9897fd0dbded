//! The body of a controller's response, whose end is counted.

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use linkerd_proxy_core::{
    http::{grpc_status, is_failure},
    metrics::{Counter, Family, LabelSet, Labels},
};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A controller's response, counted when it ends.
#[derive(Debug)]
pub struct ControlBody {
    inner: Option<Incoming>,
    ended: Option<CallEnd>,
}

/// Counts the end of a call.
#[derive(Debug)]
pub(super) struct CallEnd {
    /// The counters.
    pub(super) family: Family<Counter>,
    /// The labels so far.
    pub(super) labels: LabelSet,
    /// The status of the response.
    pub(super) status: http::StatusCode,
    /// The gRPC code of its head, if it has one.
    pub(super) code: Option<u8>,
}

impl ControlBody {
    /// Counts the end of `inner`.
    pub(super) fn new(inner: Option<Incoming>, end: CallEnd) -> Self {
        Self {
            inner,
            ended: Some(end),
        }
    }
}

impl CallEnd {
    fn count(self, code: Option<u8>, error: &str) {
        let code = self.code.or(code);
        let failure = !error.is_empty() || is_failure(self.status, code);
        let classification = match failure {
            true => "failure",
            false => "success",
        };
        let code = code.map(|code| code.to_string()).unwrap_or_default();
        let labels = Labels::new()
            .with("classification", classification)
            .with("grpc_status", code)
            .with("error", error);
        self.family.get(self.labels.and(labels)).incr();
    }
}

impl Body for ControlBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(inner).poll_frame(cx));
        let end = match &frame {
            None => Some((None, "")),
            Some(Err(_)) => Some((None, "unclassified")),
            Some(Ok(frame)) => frame
                .trailers_ref()
                .map(|trailers| (grpc_status(trailers), "")),
        };
        if let Some((code, error)) = end
            && let Some(ended) = self.ended.take()
        {
            ended.count(code, error);
        }
        Poll::Ready(frame)
    }
}

impl Drop for ControlBody {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            ended.count(None, "");
        }
    }
}
