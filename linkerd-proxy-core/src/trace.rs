//! Distributed tracing: the trace context of a request, and the spans of its path through the proxy.
//!
//! | file | content |
//! |---|---|
//! | `context.rs` | the context that a request brings, and its propagation |
//! | `w3c.rs`, `grpc.rs`, `b3.rs` | the header formats |
//! | `ids.rs`, `sampling.rs` | trace ids, span ids, the sampling decision |
//! | `request_trace.rs`, `attempt.rs` | a sampled request and its attempts, while they last |
//! | `span.rs` | spans that have ended |
//!
//! A request that is not sampled has no trace, and its headers pass unchanged.

mod attempt;
mod b3;
mod context;
mod grpc;
mod ids;
mod request_trace;
mod sampling;
mod span;
mod w3c;

pub use attempt::{AttemptEnd, AttemptSpan, SpanOutcome};
pub use context::{TraceContext, TraceFormat};
pub use ids::{SpanId, SpanIds, TraceId};
pub use request_trace::{MAX_ATTEMPTS, RequestTrace};
pub use sampling::Sampling;
pub use span::{
    Attribute, AttributeValue, ExportSpans, Span, SpanEvent, SpanKind, SpanStatus, TraceBatch,
};
