//! Stage 7: one endpoint.
//!
//! From the outside in: endpoint metrics, keeping requests that may be sent again, header rules, and a client for the
//! protocols that the endpoint speaks, over the connections of stage 8. All but the metrics are made for the first
//! request.

mod client;
mod headers;

use super::{
    context::Context,
    lazy::{Lazy, NewLazy},
};
pub use crate::exchange::HttpRequest;
use crate::exchange::{EndpointMetrics, EndpointMetricsLayer};
use client::Client;
use headers::HeaderRulesLayer;
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    NewService, Stack,
    endpoint::ProtocolHint,
    http::{Http2Settings, KeepForRetry, KeepForRetryLayer, client::inspect_http1},
};
use serde_json::Value;
use std::{rc::Rc, sync::Arc};
use tower_layer::Layer;

/// An endpoint of a balancer as a service.
pub type EndpointService = EndpointMetrics<Lazy<NewSender>>;

/// The only endpoint there is, as a service; its copies share its connections.
pub type OnlyEndpoint = EndpointMetrics<Sender>;

/// What sends to an endpoint.
type Sender = KeepForRetry<headers::HeaderRules<Client>>;

/// Makes a service for each endpoint of a backend.
#[derive(Clone, Debug)]
pub struct NewEndpoint(Rc<NewSender>);

/// Makes what sends to an endpoint.
#[derive(Debug)]
pub struct NewSender {
    ctx: Rc<Context>,
    version: http::Version,
    authority: Option<Arc<str>>,
}

impl NewEndpoint {
    /// Endpoints for applications that speak `version`. `authority` is the name that was discovered, for labels.
    pub fn new(ctx: &Rc<Context>, version: http::Version, authority: Option<Arc<str>>) -> Self {
        Self(Rc::new(NewSender {
            ctx: ctx.clone(),
            version,
            authority,
        }))
    }

    /// The service of an endpoint that has no other beside it.
    pub fn only(&self, endpoint: &Arc<Endpoint>) -> OnlyEndpoint {
        let sender = self.0.new_service(endpoint.clone());
        self.metrics(endpoint).layer(sender)
    }

    /// Whether requests to the endpoint are sent over HTTP/2, whatever the application speaks.
    pub fn speaks_http2(&self, endpoint: &Endpoint) -> bool {
        self.0.speaks_http2(endpoint)
    }

    fn metrics(&self, endpoint: &Arc<Endpoint>) -> EndpointMetricsLayer {
        let NewSender { ctx, authority, .. } = &*self.0;
        let labels = ctx.labels(endpoint, authority.as_ref());
        EndpointMetricsLayer::new(&ctx.families.endpoint, labels, endpoint.addr)
    }
}

impl NewService<Arc<Endpoint>> for NewEndpoint {
    type Service = EndpointService;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> EndpointService {
        let metrics = self.metrics(&endpoint);
        metrics.layer(Lazy::new(self.0.clone(), endpoint))
    }
}

impl NewSender {
    fn speaks_http2(&self, endpoint: &Endpoint) -> bool {
        self.version == http::Version::HTTP_2 || upgrades_http1(&self.ctx, endpoint)
    }
}

impl NewService<Arc<Endpoint>> for NewSender {
    type Service = Sender;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> Sender {
        let ctx = &self.ctx;
        let client = Client::new(ctx, &endpoint, self.version, self.authority.as_ref());
        let keep = KeepForRetryLayer {
            max_bytes: ctx.config.outbound.replay_max_bytes,
            refusals: client.speaks_http2(),
        };
        Stack::new(client)
            .push(HeaderRulesLayer::new(ctx, &endpoint))
            .push(keep)
            .into_inner()
    }
}

impl NewLazy for NewSender {
    /// HTTP/1 is dialled by requests. HTTP/2 must know how many streams it may open.
    fn is_ready(&self, endpoint: &Endpoint) -> bool {
        !self.speaks_http2(endpoint)
    }

    fn inspect(&self) -> Value {
        inspect_http1(0, 0, &self.ctx.config.outbound.pool)
    }
}

/// Whether HTTP/1 is carried to the endpoint over HTTP/2, between proxies.
fn upgrades_http1(ctx: &Context, endpoint: &Endpoint) -> bool {
    endpoint.protocol_hint == ProtocolHint::H2 && !ctx.is_local(endpoint)
}

/// The environment's HTTP/2 settings with the endpoint's own on top, field by field.
fn http2_settings(env: &Http2Settings, own: Option<&Http2Settings>) -> Http2Settings {
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
