//! The protocol between the proxy and an endpoint, and its settings.

use crate::outbound::context::Context;
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{endpoint::ProtocolHint, http::Http2Settings};

/// Whether HTTP/1 is carried to the endpoint over HTTP/2, between proxies.
pub(super) fn upgrades_http1(ctx: &Context, endpoint: &Endpoint) -> bool {
    endpoint.protocol_hint == ProtocolHint::H2 && !ctx.is_local(endpoint)
}

/// The environment's HTTP/2 settings with the endpoint's own on top, field by field.
pub(super) fn http2_settings(env: &Http2Settings, own: Option<&Http2Settings>) -> Http2Settings {
    let Some(own) = own else {
        return env.clone();
    };
    Http2Settings {
        flow_control: own.flow_control.or(env.flow_control),
        keep_alive: own.keep_alive.or(env.keep_alive),
        max_concurrent_streams: own.max_concurrent_streams.or(env.max_concurrent_streams),
        max_frame_size: own.max_frame_size.or(env.max_frame_size),
        max_header_list_size: own.max_header_list_size.or(env.max_header_list_size),
        max_pending_accept_reset_streams: own
            .max_pending_accept_reset_streams
            .or(env.max_pending_accept_reset_streams),
        max_concurrent_reset_streams: own
            .max_concurrent_reset_streams
            .or(env.max_concurrent_reset_streams),
        max_send_buf_size: own.max_send_buf_size.or(env.max_send_buf_size),
    }
}
