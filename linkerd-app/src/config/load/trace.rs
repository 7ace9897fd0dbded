//! Loads the settings of tracing.

use super::control::{Peers, controller};
use crate::config::reader::Reader;
use crate::config::variables::*;
use crate::config::{ConnectConfig, TraceConfig, TraceResourceConfig};
use linkerd_proxy_core::subscription::StreamLimits;

/// Tracing. `None` without a collector and an output, or if the collector is invalid; the reader has the errors.
pub(super) fn trace(
    r: &mut Reader<'_>,
    inbound: ConnectConfig,
    outbound: ConnectConfig,
) -> Option<TraceConfig> {
    let peers = Peers {
        inbound,
        outbound,
        limits: StreamLimits::default(),
    };
    let (addr, name) = (&TRACE_COLLECTOR_SVC_ADDR, &TRACE_COLLECTOR_SVC_NAME);
    let collector = controller(r, addr, name, &peers, None);
    let output = r.given(&TRACE_OUTPUT);
    let sample = r.value(&TRACE_SAMPLE);
    let resource = TraceResourceConfig {
        host: r.lenient(&HOSTNAME),
        service: r.lenient(&TRACE_SERVICE_NAME),
        path: r.lenient(&TRACE_ATTRIBUTES_PATH).map(Into::into),
        extra: r.lenient(&TRACE_EXTRA_ATTRIBUTES),
        otel: r.lenient(&OTEL_RESOURCE_ATTRIBUTES),
    };
    if collector.is_none() && output.is_none() {
        if r.is_set(&TRACE_SAMPLE) && !r.is_set(addr) {
            let (sample, addr, output) = (TRACE_SAMPLE.name(), addr.name(), TRACE_OUTPUT.name());
            r.warnings
                .push(format!("{sample} has no effect without {addr} or {output}"));
        }
        return None;
    }
    Some(TraceConfig {
        collector,
        output,
        sample,
        with_query: r.value(&ACCESS_LOG_QUERY),
        resource,
    })
}
