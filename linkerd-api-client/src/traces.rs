//! Spans, by the call `TraceService.Export` of OTLP.

use crate::client::{ApiClient, ApiService};
use futures::{FutureExt, StreamExt, future::LocalBoxFuture};
use linkerd_api_proto::{
    otlp::{
        AnyValue, Event, ExportTraceServiceRequest, ExportTraceServiceResponse,
        InstrumentationScope, KeyValue, Resource, ResourceSpans, STATUS_ERROR, ScopeSpans,
        Span as SpanMessage, Status as StatusMessage, any_value::Value, flags, kind,
    },
    stream::method,
};
use linkerd_proxy_core::{
    subscription::Status,
    trace::{Attribute, AttributeValue, ExportSpans, Span, SpanEvent, SpanKind, SpanStatus},
};
use std::time::{SystemTime, UNIX_EPOCH};

/// A collector of OTLP that receives spans.
pub struct GrpcSpanExporter<T> {
    client: ApiClient<T>,
    resource: Resource,
}

impl<T: ApiService> GrpcSpanExporter<T> {
    /// An exporter of spans, for a process with these attributes.
    pub fn new(service: T, resource: Vec<(String, AttributeValue)>) -> Self {
        let attributes = resource.into_iter();
        Self {
            client: ApiClient::with_limit(service, MAX_ANSWER),
            resource: Resource {
                attributes: attributes
                    .map(|(key, value)| key_value(key, &value))
                    .collect(),
            },
        }
    }
}

impl<T: ApiService> ExportSpans for GrpcSpanExporter<T> {
    fn export(&self, spans: &[Span]) -> LocalBoxFuture<'static, Result<(u64, String), Status>> {
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    // As in linkerd2-proxy: without a name.
                    scope: Some(InstrumentationScope::default()),
                    spans: spans.iter().map(message).collect(),
                }],
            }],
        };
        let call = self.client.call(method::EXPORT_SPANS, request, rejected);
        async move {
            match call.await?.next().await {
                Some(answer) => answer,
                // A lenient server may omit an empty message.
                None => Ok((0, String::new())),
            }
        }
        .boxed_local()
    }
}

fn rejected(answer: ExportTraceServiceResponse) -> (u64, String) {
    let partial = answer.partial_success.unwrap_or_default();
    let count = u64::try_from(partial.rejected_spans).unwrap_or_default();
    (count, partial.error_message)
}

fn message(span: &Span) -> SpanMessage {
    let remote = match span.has_remote_parent {
        true => flags::IS_REMOTE,
        false => 0,
    };
    SpanMessage {
        trace_id: span.trace.bytes().to_vec(),
        span_id: span.id.bytes().to_vec(),
        parent_span_id: span.parent.map_or(Vec::new(), |id| id.bytes().to_vec()),
        name: span.name.clone(),
        kind: match span.kind {
            SpanKind::Server => kind::SERVER,
            SpanKind::Client => kind::CLIENT,
        },
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(event).collect(),
        status: match &span.status {
            SpanStatus::Unset => None,
            SpanStatus::Error(message) => Some(StatusMessage {
                message: message.clone(),
                code: STATUS_ERROR,
            }),
        },
        flags: flags::HAS_IS_REMOTE | remote,
    }
}

fn event(event: &SpanEvent) -> Event {
    Event {
        time_unix_nano: nanos(event.time),
        name: event.name.to_owned(),
        attributes: attributes(&event.attributes),
    }
}

fn attributes(list: &[Attribute]) -> Vec<KeyValue> {
    list.iter()
        .map(|(key, value)| key_value((*key).to_owned(), value))
        .collect()
}

fn key_value(key: String, value: &AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => Value::StringValue(text.clone()),
        AttributeValue::Word(word) => Value::StringValue((*word).to_owned()),
        AttributeValue::Int(number) => Value::IntValue(*number),
    };
    KeyValue {
        key,
        value: Some(AnyValue { value: Some(value) }),
    }
}

/// Nanoseconds since the Unix epoch; 0 before it.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The largest answer, in bytes: a number and a text.
const MAX_ANSWER: u32 = 64 * 1024;
