//! The protocol between the proxy and an endpoint, and its settings.

use crate::outbound::context::Context;
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    endpoint::ProtocolHint,
    http::{Http2Settings, KeepAlive},
    limits::{PEER_PING_INTERVAL, PEER_PING_TIMEOUT},
};

/// Whether HTTP/1 is carried to the endpoint over HTTP/2, between proxies.
pub(super) fn upgrades_http1(ctx: &Context, endpoint: &Endpoint) -> bool {
    endpoint.protocol_hint == ProtocolHint::H2 && !ctx.is_local(endpoint)
}

/// The HTTP/2 settings of an endpoint: its own, or else those of the environment, field by field.
///
/// Without a keep-alive setting, a proxy of the mesh gets PINGs while requests are open and it is silent: a vanished node is
/// noticed long before TCP gives up. Applications get none, as some close connections for it (`too_many_pings` of gRPC).
pub(super) fn http2_settings(env: &Http2Settings, endpoint: &Endpoint) -> Http2Settings {
    let own = endpoint.http2.as_deref();
    let mut settings = own.map_or_else(|| env.clone(), |own| over(own, env));
    let is_peer_proxy = endpoint.tls.is_some() || endpoint.protocol_hint == ProtocolHint::H2;
    if is_peer_proxy {
        settings.keep_alive = settings.keep_alive.or(Some(KeepAlive {
            interval: PEER_PING_INTERVAL,
            timeout: PEER_PING_TIMEOUT,
            while_idle: false,
        }));
    }
    settings
}

fn over(own: &Http2Settings, env: &Http2Settings) -> Http2Settings {
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
