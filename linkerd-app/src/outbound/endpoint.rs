//! Stage 7: one endpoint.
//!
//! - **Fails as** the client, with the request returned if it may be sent elsewhere.
//! - **Metrics**: `request_total` and its kin.
//! - **Circuit breaker**: only at balancers whose policy has one.
//!
//! All parts but the metrics and the breaker are built on first use.

mod breaker;
mod client;
mod headers;
mod protocol;

use super::{
    context::Context,
    lazy::{EndpointTarget, Lazy},
    stack_counts::StackCounts,
};
use crate::{
    endpoint_metrics::{EndpointMetrics, EndpointMetricsLayer},
    forward::Forward,
    trace::{AttemptSpans, AttemptSpansLayer},
};
use breaker::{BreakerLayer, BreakerService};
use client::Client;
use headers::HeaderRulesLayer;
use linkerd_balance::{Member, breaker::BreakerGroup};
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    EndpointStatus, NewService,
    endpoint::{Capacity, ZoneLocality},
    http::{ReplayLayer, ReplayService},
};
use protocol::upgrades_http1;
use std::{rc::Rc, sync::Arc};
use tower::{
    ServiceBuilder,
    util::{Either, option_layer},
};

/// An endpoint of a balancer as a service.
pub type EndpointService = Either<BreakerService<MeasuredEndpoint>, MeasuredEndpoint>;

/// An endpoint of a balancer below its breaker, if it has one.
type MeasuredEndpoint = EndpointMetrics<Lazy<NewSender>>;

/// The service of a backend's only endpoint; its copies share its connections.
pub type OnlyEndpoint = Forward<EndpointMetrics<Sender>>;

/// Sends to an endpoint.
type Sender = AttemptSpans<ReplayService<headers::HeaderRules<Client>>>;

/// Makes a member of a balancer for each endpoint of a backend.
#[derive(Clone, Debug)]
pub struct NewEndpoint {
    sender: NewSender,
    breakers: Option<BreakerGroup>,
}

/// Makes the senders of a backend's endpoints.
#[derive(Clone, Debug)]
pub struct NewSender(Rc<EndpointBackend>);

/// The backend of these endpoints.
#[derive(Debug)]
struct EndpointBackend {
    ctx: Rc<Context>,
    version: http::Version,
    /// The discovered name; `None` for an endpoint that a policy or profile forwards to.
    authority: Option<Arc<str>>,
    stacks: StackCounts,
}

impl NewEndpoint {
    /// Endpoints for applications that speak `version`. `authority` is the discovered name, for labels.
    pub fn new(ctx: &Rc<Context>, version: http::Version, authority: Option<Arc<str>>) -> Self {
        let sender = NewSender(Rc::new(EndpointBackend {
            ctx: ctx.clone(),
            version,
            authority,
            stacks: StackCounts::new(&ctx.families.stack, "http", "endpoint"),
        }));
        Self {
            sender,
            breakers: None,
        }
    }

    /// Endpoints of a balancer with these circuit breakers, if it has any.
    pub fn with_breakers(self, breakers: Option<BreakerGroup>) -> Self {
        Self { breakers, ..self }
    }

    /// The service of a backend's only endpoint, and its status.
    pub fn only(&self, endpoint: &Arc<Endpoint>) -> (OnlyEndpoint, EndpointStatus) {
        let target = self.target(endpoint);
        let status = target.status.clone();
        let service = ServiceBuilder::new()
            .layer(self.metrics(endpoint))
            .service(self.sender.new_service(target));
        (Forward::new(service), status)
    }

    /// Whether requests to the endpoint are sent over HTTP/2, whatever the application speaks.
    pub fn speaks_http2(&self, endpoint: &Endpoint) -> bool {
        let EndpointBackend { ctx, version, .. } = &*self.sender.0;
        *version == http::Version::HTTP_2 || upgrades_http1(ctx, endpoint)
    }

    /// An HTTP/1 endpoint connects on demand. An HTTP/2 endpoint connects first, to know how many streams it may open.
    fn target(&self, endpoint: &Arc<Endpoint>) -> EndpointTarget {
        let capacity = match self.speaks_http2(endpoint) {
            true => Capacity::Connecting,
            false => Capacity::OnDemand,
        };
        EndpointTarget {
            endpoint: endpoint.clone(),
            status: EndpointStatus::new(capacity),
        }
    }

    fn metrics(&self, endpoint: &Arc<Endpoint>) -> EndpointMetricsLayer {
        let EndpointBackend { ctx, authority, .. } = &*self.sender.0;
        let labels = ctx.labels(endpoint, authority.as_ref());
        EndpointMetricsLayer::new(&ctx.families.endpoint, labels, endpoint.addr)
    }
}

impl NewService<Arc<Endpoint>> for NewEndpoint {
    type Service = Member<EndpointService>;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> Self::Service {
        let target = self.target(&endpoint);
        let status = target.status.clone();
        let breakers = self.breakers.as_ref();
        let breaker = breakers.map(|group| group.breaker(endpoint.addr, status.clone()));
        let service = ServiceBuilder::new()
            .layer(option_layer(breaker.clone().map(BreakerLayer::new)))
            .layer(self.metrics(&endpoint))
            .service(Lazy::new(self.sender.clone(), target));
        Member {
            breaker,
            is_local: endpoint.zone_locality == ZoneLocality::Local,
            ..Member::new(service, status, endpoint.weight)
        }
    }
}

impl NewService<EndpointTarget> for NewSender {
    type Service = Sender;

    fn new_service(&self, target: EndpointTarget) -> Sender {
        let EndpointBackend {
            ctx,
            version,
            authority,
            stacks,
        } = &*self.0;
        let endpoint = target.endpoint.clone();
        let client = Client::new(ctx, target, *version, authority.as_ref(), stacks.count());
        let replay = ReplayLayer {
            max_bytes: ctx.config.outbound.replay_max_bytes,
            refusals: client.speaks_http2() || ctx.is_meshed(&endpoint),
        };
        ServiceBuilder::new()
            .layer(AttemptSpansLayer)
            .layer(replay)
            .layer(HeaderRulesLayer::new(ctx, &endpoint, authority.is_none()))
            .service(client)
    }
}
