//! The outbound stack: from an application's connection to an endpoint of its target.
//!
//! | # | stage | what happens | file |
//! |--:|---|---|---|
//! | 1 | accept | socket options, original destination | `connection.rs` |
//! | 2 | discover | policy and profile of the target, cached | `target.rs` |
//! | 3 | detect, serve | the policy decides the protocol, or else the first bytes; HTTP is served | `connection.rs`, `http.rs` |
//! | 4 | route | the rule of the current policy for the request, its timeouts, retries and filters | here, `router.rs`, `route_choice.rs`, `limits.rs`, `timeouts.rs`, `retry.rs`, `hedge.rs`, `route_filters.rs`; of a profile `profile_route.rs` |
//! | 5 | backend | weighted or first-available choice | here, `distribute.rs`, `backends.rs` |
//! | 6 | dispatch | p2c over peak-EWMA, or the only endpoint | here, `dispatch.rs`, `balance.rs`, `linkerd-balance` |
//! | 7 | endpoint | circuit breaker, metrics, replay, header rules, connection pools | `endpoint.rs` |
//! | 8 | connect | TCP, and TLS to endpoints with an identity | `linkerd-proxy-core/src/transport/connect.rs` |
//!
//! Connections that are not HTTP leave after stage 3 to `opaque.rs`, or by their server name to `tls.rs`; `tcp_route.rs` builds
//! stages 4 to 7 for them. A request through the explicit proxy or to an ingress names its own target: it enters stage 2 from
//! stage 3 (`explicit.rs`, `ingress.rs`, `request_targets.rs`), and so does a CONNECT tunnel (`tunnel.rs`).

mod backend_metrics;
mod backends;
mod balance;
mod connection;
mod context;
mod dispatch;
mod distribute;
mod endpoint;
mod explain;
mod explicit;
mod explicit_connection;
mod forwarded;
mod hedge;
mod host_routes;
mod http;
mod http_service;
mod ingress;
mod lazy;
mod limits;
mod not_http;
mod opaque;
mod profile_request;
mod profile_route;
mod profile_timeout;
mod request_targets;
mod retry;
mod retry_budgets;
mod route_choice;
mod route_metrics;
mod router;
mod silent;
mod stack_counts;
mod status;
mod target;
mod tcp_route;
mod timeouts;
mod tls;
mod transport_header;
mod tunnel;

#[cfg(test)]
mod tests;

pub use connection::Outbound;
pub use context::{Context, Costs};
pub use forwarded::{ForwardedTarget, ForwardedTargets};

use crate::{
    access_log::StageNote,
    metrics::{HedgeCounts, PolicyRetries, RouteFamilies, backend_labels},
    route_filters::{Filters, FiltersLayer},
};
use ::http::{Response, Version};
use backend_metrics::BackendMetrics;
use backends::{BackendHandle, BackendKey, BackendStatus, Backends};
use balance::{BalanceTarget, balance, balance_one};
use dispatch::{Dispatch, DispatchStatus};
use distribute::{Distribute, RouteBackends};
use endpoint::{EndpointService, NewEndpoint, OnlyEndpoint};
use hedge::{Hedge, HedgeBudget, HedgeLayer, HedgedRoutes};
use http_service::{HttpService, future_bytes};
use limits::{Limits, LimitsLayer};
use linkerd_balance::Balance;
use linkerd_profiles::{
    Discovered, DiscoveryWatch, Dispatcher, Endpoint, HttpBackend, HttpFilter, HttpRouting,
    PeakEwma, RouteRule, Target,
};
use linkerd_proxy_core::{
    NewService, ObserveLayer, RcLayer, Shared, StageNames,
    http::{HttpRequest, ResponseBody},
    metrics::{LabelSet, Labels},
    stack::{Observe, RcService},
};
use profile_route::profile_route_layers;
use retry::RouteRetries;
use retry_budgets::RetryBudgets;
use route_choice::{MakeRule, RouteChoice};
use route_metrics::RouteMetrics;
use router::{Refusal, RouteService, Router, Routes};
use serde_json::{Value, json};
use stack_counts::StackCounts;
use std::{net::SocketAddr, rc::Rc, sync::Arc};
use timeouts::timeouts_layer;
use tower::{
    ServiceBuilder,
    layer::{Layer, util::Identity},
    util::{Either, option_layer},
};

/// Routes the requests of one target and HTTP version.
pub type HttpRouter = Router<HttpRoutes>;

/// Stages 4 to 8 of one target and HTTP version.
pub struct HttpRoutes {
    ctx: Rc<Context>,
    version: Version,
    /// The name of the target, for errors.
    target: String,
    backends: Backends<HttpDispatch>,
    budgets: RetryBudgets,
    /// `None`: no request is hedged.
    hedged: Option<HedgedRoutes>,
}

/// Sends requests to the endpoints of a backend.
type HttpDispatch = Dispatch<Balance<SocketAddr, EndpointService>, OnlyEndpoint>;

/// The status of a backend.
type HttpStatus = DispatchStatus<EndpointService>;

/// A backend as one route uses it, with the route's metrics and filters.
type RouteBackendService = Observe<
    Either<Filters<HttpDispatch>, HttpDispatch>,
    ((StageNote, Option<BackendMetrics>), StageNames),
>;

/// The backend choice of a route, behind a hedge if hedging is on.
type HttpBackends = Either<Hedge<RcService<BackendChoice>>, BackendChoice>;

type BackendChoice = Distribute<RouteBackendService>;

impl HttpRoutes {
    /// A router for the target of `watch`; `discovered` is its current policy.
    fn router(
        ctx: &Rc<Context>,
        watch: &DiscoveryWatch,
        discovered: &Discovered,
        version: Version,
    ) -> HttpRouter {
        Router::new(watch, discovered, Self::new(ctx, watch.target(), version))
    }

    fn new(ctx: &Rc<Context>, target: &Target, version: Version) -> Self {
        Self {
            ctx: ctx.clone(),
            version,
            target: target.to_string(),
            backends: Backends::default(),
            budgets: RetryBudgets::new(ctx.workers),
            hedged: ctx.config.outbound.hedge.map(HedgedRoutes::new),
        }
    }

    /// Stage 4: the stack of a rule. Built for the first request, and shared by all connections to the target.
    fn rule(&self, routing: &HttpRouting, rule: &RouteRule, hostname: &str) -> RouteService<Self> {
        let labels = RouteFamilies::route_labels(&routing.parent, &rule.meta, hostname);
        if let (Some(profile), Some(logical)) = (&rule.profile, &routing.canonical_header) {
            let budget = routing.retry_budget.filter(|_| profile.is_retryable);
            let retries = budget.map(|settings| {
                let (budget, rng) = (self.budgets.of_profile(settings), self.ctx.rng());
                move |counts| RouteRetries::new(counts, &budget, rng)
            });
            let families = &self.ctx.families.profile_route;
            let layers = profile_route_layers(families, logical, profile, retries);
            return self.http_route(routing, rule, labels, layers);
        }
        let filters = option_layer(self.filters(&rule.filters));
        if rule.retry.is_some() || rule.allows_request_headers {
            let limits = self.limits(routing, rule, &labels);
            let features = (limits, RcLayer, filters);
            return self.http_route(routing, rule, labels, features);
        }
        if rule.filters.is_empty() && rule.timeouts.is_none() {
            return self.http_route(routing, rule, labels, Identity::new());
        }
        let features = (timeouts_layer(rule.timeouts), filters);
        self.http_route(routing, rule, labels, features)
    }

    /// Timeouts and retries of a rule.
    fn limits(&self, routing: &HttpRouting, rule: &RouteRule, labels: &Labels) -> LimitsLayer {
        let families = self.ctx.families.outbound.of_routes(routing.is_grpc);
        let counts = PolicyRetries::new(&families.retries, labels.clone().into());
        let budget = self.budgets.of_policy(&rule.distribution);
        let retries = RouteRetries::new(counts, &budget, self.ctx.rng());
        LimitsLayer {
            limits: Limits {
                timeouts: rule.timeouts,
                retry: rule.retry.clone().map(Rc::new),
            },
            allows_headers: rule.allows_request_headers,
            retries: Rc::new(retries),
        }
    }

    /// The hedge layer of a rule, if hedging is on. Hedges are taken from the budget of the rule's retries.
    fn hedge(
        &self,
        routing: &HttpRouting,
        rule: &RouteRule,
        labels: &Labels,
    ) -> Option<(HedgeLayer, RcLayer)> {
        let hedged = self.hedged.as_ref()?;
        let budget = HedgeBudget::of_rule(&self.budgets, routing, rule);
        let counts = HedgeCounts::new(
            &self.ctx.families.outbound.of_routes(routing.is_grpc).hedges,
            labels.clone().into(),
        );
        let route = hedged.add(rule.meta.to_string(), budget, counts);
        Some((HedgeLayer::new(route), RcLayer))
    }

    /// The stack of a rule, with metrics under `labels`. `features` are the rule's own layers, between its metrics and its choice
    /// of a backend.
    fn http_route<L>(
        &self,
        routing: &HttpRouting,
        rule: &RouteRule,
        labels: Labels,
        features: L,
    ) -> RouteService<Self>
    where
        L: Layer<HttpBackends, Service: HttpService + 'static>,
    {
        let families = self.ctx.families.outbound.of_routes(routing.is_grpc);
        let backends = RouteBackends::new(&rule.distribution, |used| {
            self.backend(families, routing, rule, used)
        });
        let logical = routing.logical.as_ref();
        let logical = logical.map_or(&*self.target, |logical| logical.as_str());
        let names = StageNames::new([
            format!("route {}", rule.meta),
            format!("logical service {logical}"),
        ]);
        let hedge = self.hedge(routing, rule, &labels);
        let labels = LabelSet::from(labels);
        let noted = match &rule.profile {
            // The labels of a profile's route are written by the author of the profile.
            Some(profile) => {
                let own = profile.labels.iter();
                let own = own.map(|(name, value)| (name.as_str(), value.as_str()));
                Labels::new().with_all("", own).into()
            }
            None => labels.clone(),
        };
        let note = StageNote::Route(rule.meta.to_string().into(), noted);
        let metrics = || RouteMetrics::new(families, labels, routing.is_grpc);
        let metrics = rule.is_of_policy().then(metrics);
        let stack = ServiceBuilder::new()
            .layer(ObserveLayer::new((names, (note, metrics))))
            .layer(features)
            .option_layer(hedge)
            .service(Distribute::new(backends, self.ctx.rng()));
        self.ctx.route_bytes.set(future_bytes(&stack));
        Shared::new(stack)
    }

    /// Stage 5: a backend as one route uses it. A backend that an update keeps is reused.
    fn backend(
        &self,
        families: &RouteFamilies,
        routing: &HttpRouting,
        rule: &RouteRule,
        used: &HttpBackend,
    ) -> (RouteBackendService, Rc<dyn BackendStatus>) {
        let key = BackendKey {
            parent: routing.parent.clone(),
            backend: used.backend.clone(),
        };
        let handle = self.backends.get(key, |key| self.dispatch(key));
        let meta = &used.backend.meta;
        let labels = RouteFamilies::backend_labels(&routing.parent, &rule.meta, meta);
        let metrics = || BackendMetrics::new(families, labels.into(), routing.is_grpc);
        let metrics = rule.is_of_policy().then(metrics);
        let note = StageNote::Backend(handle.name().into());
        let names = [handle.name(), format!("backend {meta}")];
        let stack = ServiceBuilder::new()
            .layer(ObserveLayer::new((
                (note, metrics),
                StageNames::of_endpoint(names),
            )))
            .option_layer(self.filters(&used.filters))
            .service(handle.service.clone());
        (stack, handle)
    }

    /// `None` without filters.
    fn filters(&self, filters: &[HttpFilter]) -> Option<FiltersLayer> {
        (!filters.is_empty()).then(|| FiltersLayer::new(filters, self.ctx.rng()))
    }

    /// Stage 6: the endpoints of a backend. A backend that cannot be built fails only its own requests.
    fn dispatch(&self, key: &BackendKey) -> BackendHandle<HttpDispatch> {
        let ctx = &self.ctx;
        let (dispatch, status, kind) = match &key.backend.dispatcher {
            Dispatcher::Balance {
                destination,
                load,
                breaker,
            } => {
                let authority = destination.authority();
                let breakers = breaker
                    .as_deref()
                    .map(|rules| ctx.breakers(destination, rules));
                let new_endpoint =
                    NewEndpoint::new(ctx, self.version, Some(authority)).with_breakers(breakers);
                let target = self.balance_target(key, load.clone());
                let (dispatch, status) = match balance(ctx, destination, target, new_endpoint) {
                    Ok(balance) => Dispatch::balanced(destination, balance),
                    Err(error) => Dispatch::failed(error),
                };
                (dispatch, status, "balance")
            }
            Dispatcher::Forward(endpoint) => {
                let (dispatch, status) = self.forward(key, endpoint);
                (dispatch, status, "forward")
            }
            Dispatcher::Fail(message) => {
                let (dispatch, status) = Dispatch::failed(message);
                (dispatch, status, "fail")
            }
        };
        let counted = StackCounts::new(&ctx.families.stack, "http", kind).count();
        BackendHandle::new(dispatch, status, counted)
    }

    /// Stage 6: the only endpoint of a backend.
    ///
    /// An HTTP/1 endpoint connects for the request, so that a refusal fails it at once. An HTTP/2 endpoint needs a connection
    /// first: the request waits for it as at a balancer.
    fn forward(&self, key: &BackendKey, endpoint: &Arc<Endpoint>) -> (HttpDispatch, HttpStatus) {
        let new_endpoint = NewEndpoint::new(&self.ctx, self.version, None);
        if !new_endpoint.speaks_http2(endpoint) {
            let (service, status) = new_endpoint.only(endpoint);
            return Dispatch::forwarded(endpoint.addr, service, Some(status));
        }
        let member = new_endpoint.new_service(endpoint.clone());
        let target = self.balance_target(key, PeakEwma::default());
        let balance = balance_one(&self.ctx, endpoint.addr, member, target);
        Dispatch::balanced(endpoint.addr, balance)
    }

    fn balance_target(&self, key: &BackendKey, load: PeakEwma) -> BalanceTarget<'_> {
        BalanceTarget {
            load,
            config: Some(&self.ctx.config.outbound.balancer),
            queue: self.ctx.config.outbound.http_queue,
            families: &self.ctx.families.outbound.http_balancer,
            labels: backend_labels(&key.parent, &key.backend.meta).into(),
        }
    }
}

impl Routes for HttpRoutes {
    type Request = HttpRequest;
    type Response = Response<ResponseBody>;
    type Snapshot = RouteChoice<Self>;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<RouteChoice<Self>, Refusal> {
        match discovered.http(self.version) {
            Ok(routing) => Ok(RouteChoice::new(routing, self.clone())),
            Err(invalid) => Err(Refusal::invalid(&invalid.reason, &self.target)),
        }
    }

    fn replaced(&self, present: Option<&RouteChoice<Self>>) {
        let is_named = |key: &BackendKey| present.is_some_and(|routes| routes.names(key));
        self.backends.forget_unused(is_named);
        let is_named = |set: &_| present.is_some_and(|routes| routes.distributes_to(set));
        self.budgets.forget_unused(is_named);
    }

    fn inspect(&self, present: Option<&RouteChoice<Self>>) -> Value {
        json!({
            "version": format!("{:?}", self.version),
            "routes": present.map(RouteChoice::inspect),
            "backends": self.backends.inspect(),
            "retry_budgets": self.budgets.inspect(),
            "hedging": self.hedged.as_ref().map(HedgedRoutes::inspect),
        })
    }
}

impl MakeRule for HttpRoutes {
    fn make(&self, routing: &HttpRouting, rule: &RouteRule, hostname: &str) -> RouteService<Self> {
        self.rule(routing, rule, hostname)
    }

    fn target(&self) -> &str {
        &self.target
    }

    fn hostname_labels(&self) -> bool {
        self.ctx.config.outbound.hostname_labels
    }
}
