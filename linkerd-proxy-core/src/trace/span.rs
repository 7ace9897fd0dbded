//! Finished spans, in the terms of OpenTelemetry (<https://opentelemetry.io/docs/specs/otel/trace/api/>).

use super::ids::{SpanId, TraceId};
use crate::subscription::Status;
use futures::future::LocalBoxFuture;
use std::time::SystemTime;

/// A finished span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace.
    pub trace: TraceId,
    /// The id.
    pub id: SpanId,
    /// The parent span; `None` for the first span of a trace.
    pub parent: Option<SpanId>,
    /// Whether the parent span is in another process.
    pub has_remote_parent: bool,
    /// The name: the path of the request.
    pub name: String,
    /// The side of the exchange.
    pub kind: SpanKind,
    /// The beginning.
    pub start: SystemTime,
    /// The end.
    pub end: SystemTime,
    /// The attributes of the span.
    pub attributes: Vec<Attribute>,
    /// Events between start and end.
    pub events: Vec<SpanEvent>,
    /// Success or failure.
    pub status: SpanStatus,
}

/// The side of an exchange that a span covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A request that the proxy received.
    Server,
    /// A request that the proxy sent.
    Client,
}

/// Success or failure of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanStatus {
    /// Not known to have failed.
    Unset,
    /// Failed, with a message that may be empty.
    Error(String),
}

/// A fact about a span or its process.
pub type Attribute = (&'static str, AttributeValue);

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A fixed word of the proxy.
    Word(&'static str),
    /// A number.
    Int(i64),
}

/// An event of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// The name.
    pub name: &'static str,
    /// The time.
    pub time: SystemTime,
    /// The attributes of the event.
    pub attributes: Vec<Attribute>,
}

/// The spans of one request in this proxy, the server's first.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceBatch(pub Vec<Span>);

/// Takes finished spans. Implemented over gRPC by `linkerd-api-client`.
pub trait ExportSpans {
    /// Sends spans. Returns the number of refused spans, and the receiver's reason.
    fn export(&self, spans: &[Span]) -> LocalBoxFuture<'static, Result<(u64, String), Status>>;
}

impl Span {
    /// The value of an attribute.
    pub fn attribute(&self, key: &str) -> Option<&AttributeValue> {
        let found = self.attributes.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value)
    }

    /// An estimate of the bytes that the span takes, in memory and on the wire.
    pub fn size(&self) -> usize {
        let attributes = |list: &[Attribute]| {
            let sizes = list.iter().map(|(key, value)| key.len() + value.size());
            sizes.sum::<usize>()
        };
        let events = self.events.iter();
        let events = events.map(|event| SPAN_BYTES / 4 + attributes(&event.attributes));
        let message = match &self.status {
            SpanStatus::Unset => 0,
            SpanStatus::Error(message) => message.len(),
        };
        SPAN_BYTES
            + self.name.len()
            + message
            + attributes(&self.attributes)
            + events.sum::<usize>()
    }
}

impl TraceBatch {
    /// An estimate of the bytes that the spans take.
    pub fn size(&self) -> usize {
        self.0.iter().map(Span::size).sum()
    }
}

impl AttributeValue {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Word(word) => Some(word),
            Self::Int(_) => None,
        }
    }

    fn size(&self) -> usize {
        let text = self.as_text().map_or(0, str::len);
        size_of::<Attribute>() + text
    }
}

/// The bytes of a span without its texts.
const SPAN_BYTES: usize = size_of::<Span>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_follows_the_texts() {
        let span = |text: &str| Span {
            trace: TraceId::new([1; 16]).unwrap(),
            id: SpanId::new([1; 8]).unwrap(),
            parent: None,
            has_remote_parent: false,
            name: "/".to_owned(),
            kind: SpanKind::Server,
            start: SystemTime::UNIX_EPOCH,
            end: SystemTime::UNIX_EPOCH,
            attributes: vec![("url.path", AttributeValue::Text(text.to_owned()))],
            events: Vec::new(),
            status: SpanStatus::Unset,
        };
        let (short, long) = (span(""), span(&"a".repeat(1000)));
        assert_eq!(long.size(), short.size() + 1000);
        let value = long.attribute("url.path").and_then(AttributeValue::as_text);
        assert_eq!(value.map(str::len), Some(1000));
        assert_eq!(long.attribute("url.query"), None);
        assert_eq!(
            TraceBatch(vec![short.clone(), long]).size(),
            2 * short.size() + 1000
        );
    }
}
