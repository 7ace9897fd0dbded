//! Traces for a person: some lines for each request.

use super::spans::{EVENT_CONNECTED, EVENT_DISCOVERED, EVENT_QUEUED, EVENT_RESPONSE};
use linkerd_proxy_core::trace::{AttributeValue, Span, SpanEvent, SpanStatus, TraceBatch};
use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

/// The lines of a request: its server span, and one line for each attempt.
pub(super) fn print(trace: &TraceBatch) -> Vec<u8> {
    let mut out = String::new();
    if let Some((server, attempts)) = trace.0.split_first() {
        // A write to a string does not fail.
        let _ = push_request(&mut out, server);
        for (number, attempt) in attempts.iter().enumerate() {
            let _ = push_attempt(&mut out, server, number, attempt);
        }
    }
    out.into_bytes()
}

fn push_request(out: &mut String, span: &Span) -> std::fmt::Result {
    let text = |key| text_of(span, key);
    write!(out, "trace {} {}", span.trace, text("direction"))?;
    write!(out, " {} ", text("http.request.method"))?;
    let url = text("url.full");
    // A path as it was received; the target of CONNECT has its host.
    if url.starts_with('/') || url == "*" {
        push_url(out, text("server.address"))?;
    }
    push_url(out, url)?;
    push_end(out, span)?;
    write!(out, " in {}", Millis(length(span.start, span.end)))?;
    let mut events = span.events.iter();
    if let Some(event) = events.find(|event| event.name == EVENT_DISCOVERED) {
        write!(out, ", discovery {}", Millis(duration_of(event)))?;
    }
    if let Some(parent) = span.parent {
        write!(out, " (span {}, parent {parent})", span.id)?;
    } else {
        write!(out, " (span {}, first of its trace)", span.id)?;
    }
    out.push('\n');
    Ok(())
}

fn push_attempt(out: &mut String, server: &Span, number: usize, span: &Span) -> std::fmt::Result {
    let after = Millis(length(server.start, span.start));
    let took = Millis(length(span.start, span.end));
    write!(out, "  attempt {} at +{after} to ", number + 1)?;
    push_clean(out, text_of(span, "network.peer.address"))?;
    if let Some(AttributeValue::Int(port)) = span.attribute("network.peer.port") {
        write!(out, ":{port}")?;
    }
    if span.attribute("server_id").is_some() {
        out.push_str(" (");
        push_clean(out, text_of(span, "server_id"))?;
        out.push(')');
    }
    push_end(out, span)?;
    write!(out, " in {took}")?;
    for event in &span.events {
        match event.name {
            EVENT_QUEUED => write!(out, ", waited {}", Millis(duration_of(event)))?,
            EVENT_CONNECTED => write!(out, ", connect {}", Millis(duration_of(event)))?,
            EVENT_RESPONSE => {
                let head = length(span.start, event.time);
                write!(out, ", headers after {}", Millis(head))?;
            }
            _ => {}
        }
    }
    writeln!(out, " (span {})", span.id)
}

/// The status, or the reason and message of a failure.
fn push_end(out: &mut String, span: &Span) -> std::fmt::Result {
    match text_of(span, "http.response.status_code") {
        "" => {}
        status => write!(out, ": {status}")?,
    }
    match (&span.status, text_of(span, "linkerd.outcome")) {
        (SpanStatus::Unset, "success") => {}
        (SpanStatus::Unset, outcome) => write!(out, " {outcome}")?,
        (SpanStatus::Error(message), _) => {
            write!(out, " failed")?;
            if let Some(reason) = span.attribute("error.type").and_then(|it| it.as_text()) {
                write!(out, " {reason}")?;
            }
            if !message.is_empty() {
                out.push_str(" (");
                push_clean(out, message)?;
                out.push(')');
            }
        }
    }
    Ok(())
}

fn text_of<'s>(span: &'s Span, key: &str) -> &'s str {
    let value = span.attribute(key).and_then(AttributeValue::as_text);
    value.unwrap_or_default()
}

fn duration_of(event: &SpanEvent) -> Duration {
    let micros = event.attributes.iter().find_map(|(_, value)| match value {
        AttributeValue::Int(micros) => u64::try_from(*micros).ok(),
        AttributeValue::Text(_) | AttributeValue::Word(_) => None,
    });
    Duration::from_micros(micros.unwrap_or_default())
}

/// A URL without its query, as one word: a client's spaces could look like the result.
fn push_url(out: &mut String, url: &str) -> std::fmt::Result {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    url.chars()
        .try_for_each(|char| match char.is_ascii_graphic() {
            true => out.write_char(char),
            false => write!(out, "{}", char.escape_default()),
        })
}

/// A text from a peer. Control characters, and characters that change the direction of a text, could move the cursor of a
/// terminal.
fn push_clean(out: &mut String, text: &str) -> std::fmt::Result {
    text.chars()
        .try_for_each(|char| match char.is_ascii() && !char.is_control() {
            true => out.write_char(char),
            false => write!(out, "{}", char.escape_default()),
        })
}

fn length(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}

struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ms", self.0.as_secs_f64() * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::trace::{
        AttributeValue::{Int, Text, Word},
        SpanId, SpanKind, TraceId,
    };

    #[test]
    fn a_request_and_its_attempts_have_a_line_each() {
        let time = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let span = |id, kind, (start, end), attributes, status| Span {
            trace: TraceId::new([1; 16]).unwrap(),
            id: SpanId::new([id; 8]).unwrap(),
            parent: None,
            has_remote_parent: false,
            name: "/a".to_owned(),
            kind,
            start: time(start),
            end: time(end),
            attributes,
            events: Vec::new(),
            status,
        };
        let server = vec![
            ("direction", Word("outbound")),
            ("http.request.method", Text("GET".to_owned())),
            ("server.address", Text("web".to_owned())),
            ("url.full", Text("/a\u{1b}".to_owned())),
            ("http.response.status_code", Text("200".to_owned())),
            ("linkerd.outcome", Word("success")),
        ];
        let attempt = vec![
            ("network.peer.address", Text("10.0.0.1".to_owned())),
            ("network.peer.port", Int(80)),
            ("linkerd.outcome", Word("failure")),
            ("error.type", Word("connect_refused")),
        ];
        let refused = SpanStatus::Error("refused".to_owned());
        let mut attempt = span(3, SpanKind::Client, (1, 3), attempt, refused);
        attempt.events = vec![SpanEvent {
            name: EVENT_CONNECTED,
            time: time(2),
            attributes: vec![("linkerd.connect_us", Int(1500))],
        }];
        let server = span(2, SpanKind::Server, (0, 12), server, SpanStatus::Unset);
        let printed = String::from_utf8(print(&TraceBatch(vec![server, attempt]))).unwrap();
        let connect = vec![
            ("http.request.method", Text("CONNECT".to_owned())),
            ("server.address", Text("web".to_owned())),
            ("url.full", Text("web:443".to_owned())),
        ];
        let connect = span(2, SpanKind::Server, (0, 12), connect, SpanStatus::Unset);
        let expected = "\
trace 01010101010101010101010101010101 outbound GET web/a\\u{1b}: 200 in 12.0 ms (span 0202020202020202, first of its trace)
  attempt 1 at +1.0 ms to 10.0.0.1:80 failed connect_refused (refused) in 2.0 ms, connect 1.5 ms (span 0303030303030303)
";
        assert_eq!(printed, expected);
        let printed = String::from_utf8(print(&TraceBatch(vec![connect]))).unwrap();
        assert!(printed.contains(" CONNECT web:443 "), "{printed}");
    }
}
