//! Stage 7: one endpoint.
//!
//! From the outside in: endpoint metrics, keeping requests that may be sent again, header rules, and a client for the
//! protocols that the endpoint speaks, over the connections of stage 8.

mod client;
mod headers;

use super::context::Context;
pub use crate::exchange::HttpRequest;
use crate::{
    exchange::{EndpointMetrics, EndpointMetricsLayer},
    metrics::endpoint_labels,
};
use client::Client;
use headers::HeaderRulesLayer;
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    NewService, Stack,
    endpoint::ProtocolHint,
    http::{Http2Settings, KeepForRetry, KeepForRetryLayer},
};
use std::{rc::Rc, sync::Arc};

/// An endpoint as a service; its copies share its connections.
pub type EndpointService = EndpointMetrics<KeepForRetry<headers::HeaderRules<Client>>>;

/// Makes a service for each endpoint of a backend.
#[derive(Clone, Debug)]
pub struct NewEndpoint {
    /// The worker.
    pub ctx: Rc<Context>,
    /// The version that the application speaks.
    pub version: http::Version,
    /// The name that was discovered, for labels.
    pub authority: Option<Arc<str>>,
}

impl NewService<Arc<Endpoint>> for NewEndpoint {
    type Service = EndpointService;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> EndpointService {
        let ctx = &self.ctx;
        let client = Client::new(ctx, &endpoint, self.version, self.authority.as_deref());
        let keep = KeepForRetryLayer {
            max_bytes: ctx.config.outbound.replay_max_bytes,
            refusals: client.speaks_http2(),
        };
        let local = ctx.is_local(&endpoint);
        let labels = endpoint_labels(&endpoint, self.authority.as_deref(), local);
        Stack::new(client)
            .push(HeaderRulesLayer::new(ctx, &endpoint))
            .push(keep)
            .push(EndpointMetricsLayer::new(
                &ctx.families.endpoint,
                labels,
                endpoint.addr,
            ))
            .into_inner()
    }
}

impl NewEndpoint {
    /// Whether requests to the endpoint are sent over HTTP/2, whatever the application speaks.
    pub fn speaks_http2(&self, endpoint: &Endpoint) -> bool {
        self.version == http::Version::HTTP_2 || upgrades_http1(&self.ctx, endpoint)
    }
}

/// Whether HTTP/1 is carried to the endpoint over HTTP/2, between proxies.
fn upgrades_http1(ctx: &Context, endpoint: &Endpoint) -> bool {
    endpoint.protocol_hint == ProtocolHint::H2 && !ctx.is_local(endpoint)
}

/// The environment's HTTP/2 settings with the endpoint's own on top, field by field.
fn http2_settings(env: &Http2Settings, own: &Http2Settings) -> Http2Settings {
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
