//! The traces of OTLP, as far as the proxy sends them: `TraceService.Export`.
//!
//! Written for this crate after the proto files of OpenTelemetry (`opentelemetry/proto/collector/trace/v1/trace_service.proto`,
//! `trace/v1/trace.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`), as the published bindings bring the
//! OpenTelemetry SDK with them.

/// Spans of one or more processes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTraceServiceRequest {
    /// One for each process.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The answer of a collector.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExportTraceServiceResponse {
    /// The spans that were refused of a request that was taken.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

/// The refused part of a request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExportTracePartialSuccess {
    /// The number of refused spans.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// The reason.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// The spans of one process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    /// The process.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its spans, by the library that makes them.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Its attributes.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans of one library.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    /// The library.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A library that makes spans.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes, or none of the first span of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// The name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// One of [`kind`].
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// Nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// Facts about it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// Moments of it.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    /// Success or failure.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// Flags of W3C Trace Context, and [`flags`].
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// A moment of a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Event {
    /// Nanoseconds since the Unix epoch.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// The name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Facts about it.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// Success or failure of a span.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    /// A message about a failure.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 0: unset, 1: ok, 2: error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// An attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// The key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// The value.
    #[prost(oneof = "any_value::Value", tags = "1, 3")]
    pub value: Option<any_value::Value>,
}

/// The forms of a value.
pub mod any_value {
    /// A value. Booleans, floats, lists and bytes are never sent.
    #[derive(Clone, PartialEq, Eq, prost::Oneof)]
    pub enum Value {
        /// A text.
        #[prost(string, tag = "1")]
        StringValue(String),
        /// A number.
        #[prost(int64, tag = "3")]
        IntValue(i64),
    }
}

/// Kinds of spans.
pub mod kind {
    /// A request that was received.
    pub const SERVER: i32 = 2;
    /// A request that was sent.
    pub const CLIENT: i32 = 3;
}

/// Flags of a span, beside those of W3C Trace Context in the lowest byte.
pub mod flags {
    /// It is known whether the parent is in another process.
    pub const HAS_IS_REMOTE: u32 = 0x100;
    /// The parent is in another process.
    pub const IS_REMOTE: u32 = 0x200;
}

/// The code of a status: failed.
pub const STATUS_ERROR: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn has_the_bytes_of_the_specification() {
        let text = |text: &str| AnyValue {
            value: Some(any_value::Value::StringValue(text.to_owned())),
        };
        let span = Span {
            trace_id: vec![1],
            span_id: vec![2],
            parent_span_id: vec![3],
            name: "n".to_owned(),
            kind: kind::SERVER,
            start_time_unix_nano: 4,
            end_time_unix_nano: 5,
            attributes: vec![KeyValue {
                key: "k".to_owned(),
                value: Some(text("v")),
            }],
            events: vec![Event {
                time_unix_nano: 6,
                name: "e".to_owned(),
                attributes: vec![KeyValue {
                    key: "i".to_owned(),
                    value: Some(AnyValue {
                        value: Some(any_value::Value::IntValue(7)),
                    }),
                }],
            }],
            status: Some(Status {
                message: "m".to_owned(),
                code: STATUS_ERROR,
            }),
            flags: 0x300,
        };
        let bytes = [
            &b"\x0a\x01\x01\x12\x01\x02\x22\x01\x03\x2a\x01n\x30\x02"[..],
            b"\x39\x04\0\0\0\0\0\0\0\x41\x05\0\0\0\0\0\0\0",
            b"\x4a\x08\x0a\x01k\x12\x03\x0a\x01v",
            b"\x5a\x15\x09\x06\0\0\0\0\0\0\0\x12\x01e\x1a\x07\x0a\x01i\x12\x02\x18\x07",
            b"\x7a\x05\x12\x01m\x18\x02",
            b"\x85\x01\0\x03\0\0",
        ]
        .concat();
        assert_eq!(span.encode_to_vec(), bytes);
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource::default()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope::default()),
                    spans: vec![Span::default()],
                }],
            }],
        };
        let expected = b"\x0a\x08\x0a\0\x12\x04\x0a\0\x12\0";
        assert_eq!(request.encode_to_vec(), expected);
        let response = b"\x0a\x05\x08\x02\x12\x01r";
        let partial = ExportTraceServiceResponse::decode(&response[..]).unwrap();
        let partial = partial.partial_success.unwrap();
        assert_eq!((partial.rejected_spans, &*partial.error_message), (2, "r"));
    }
}
