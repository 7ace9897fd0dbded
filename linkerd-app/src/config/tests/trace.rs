//! Settings of tracing.

use super::*;
use crate::config::{AccessLogOutput, TraceResourceConfig};

const ADDR: (&str, &str) = ("TRACE_COLLECTOR_SVC_ADDR", "collector.linkerd-jaeger:4317");
const NAME: (&str, &str) = ("TRACE_COLLECTOR_SVC_NAME", "collector.test");

#[test]
fn a_collector_has_an_address_and_a_name() {
    let trace = load(&[ADDR, NAME]).trace.unwrap();
    let collector = trace.collector.unwrap();
    assert_eq!(collector.addr.to_string(), "collector.linkerd-jaeger:4317");
    assert_eq!(collector.tls_name.unwrap().to_string(), "collector.test");
    assert_eq!((trace.sample, trace.output), (0.0, None));
    let errors = refused(&[ADDR]);
    let expected = "LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR and LINKERD2_PROXY_TRACE_COLLECTOR_SVC_NAME must be specified together";
    assert_eq!(messages(&errors), [expected]);
}

#[test]
fn a_collector_on_loopback_needs_no_name() {
    let trace = load(&[("TRACE_COLLECTOR_SVC_ADDR", "127.0.0.1:4317")]).trace;
    let collector = trace.unwrap().collector.unwrap();
    assert!(collector.is_loopback && collector.tls_name.is_none());
}

#[test]
fn the_attributes_of_the_process_have_several_sources() {
    let trace = load(&[
        ("LINKERD_PROXY_TRACE_OUTPUT", "stdout"),
        ("LINKERD_PROXY_TRACE_SAMPLE", "0.5"),
        ("TRACE_SERVICE_NAME", "proxy"),
        ("TRACE_ATTRIBUTES_PATH", "/labels"),
        ("TRACE_EXTRA_ATTRIBUTES", "a=b"),
        ("OTEL_RESOURCE_ATTRIBUTES", "c=d"),
        ("HOSTNAME", "pod"),
    ]);
    let trace = trace.trace.unwrap();
    assert_eq!(trace.output, Some(AccessLogOutput::Stdout));
    assert_eq!((trace.sample, trace.collector), (0.5, None));
    let text = |text: &str| Some(text.to_owned());
    let expected = TraceResourceConfig {
        host: text("pod"),
        service: text("proxy"),
        path: Some("/labels".into()),
        extra: text("a=b"),
        otel: text("c=d"),
    };
    assert_eq!(trace.resource, expected);
}

#[test]
fn a_share_without_a_receiver_is_warned_about() {
    let loaded = loaded(&[("LINKERD_PROXY_TRACE_SAMPLE", "1")]);
    assert_eq!(loaded.config.trace, None);
    let expected = "LINKERD_PROXY_TRACE_SAMPLE has no effect without LINKERD2_PROXY_TRACE_COLLECTOR_SVC_ADDR or LINKERD_PROXY_TRACE_OUTPUT";
    assert!(loaded.warnings.iter().any(|text| text == expected));
}
