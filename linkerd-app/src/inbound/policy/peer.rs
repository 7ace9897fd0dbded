//! Clients of one TLS status under one policy, and their series.

use super::{
    authority_series::AuthoritySeries, route_metrics::InboundRouteMetrics, scope::PolicyScope,
};
use crate::{
    endpoint_metrics::EndpointSeries,
    metrics::{client_tls_labels, inbound_meta_labels, target_labels},
};
use linkerd_profiles::{Authorization, Meta, ServerProtocol};
use linkerd_proxy_core::{
    http::HttpRequest,
    metrics::{Counter, Labels},
    tls::TlsStatus,
    transport::TransportSeries,
};
use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

/// Clients of one TLS status under one policy.
pub struct PolicyPeer {
    tls: TlsStatus,
    connections: Arc<TransportSeries>,
    permits: RefCell<HashMap<PermitKey, Rc<RoutePermit>>>,
}

/// A rule, and the authorization that lets its requests in.
#[derive(PartialEq, Eq, Hash)]
struct PermitKey {
    rule: usize,
    authz: Arc<Meta>,
}

/// The series of requests that one rule and one authorization let in.
pub struct RoutePermit {
    /// Counts the requests.
    pub allowed: Counter,
    /// Counts the requests and their responses, as of the route.
    pub route: InboundRouteMetrics,
    /// Counts the requests and their responses, as of the application.
    pub application: Rc<EndpointSeries>,
    /// The same with a label for the authority, if that is configured.
    by_authority: Option<AuthoritySeries>,
    /// The name of the route.
    pub route_name: Rc<str>,
    /// The authorization, if its admissions are logged.
    pub audit: Option<Arc<Meta>>,
}

impl RoutePermit {
    /// The series that count a request as of the application.
    pub fn series<B>(&self, request: &HttpRequest<B>) -> Rc<EndpointSeries> {
        let by_authority = self.by_authority.as_ref();
        let series = by_authority.and_then(|all| all.of_request(request));
        series.unwrap_or_else(|| self.application.clone())
    }
}

impl PolicyPeer {
    /// Clients with the status `tls`, whose identity is as labels name it.
    pub(super) fn new(scope: &PolicyScope, tls: TlsStatus) -> Self {
        let labels = Labels::new()
            .with("direction", "inbound")
            .with("peer", "src");
        let labels = client_tls_labels(target_labels(labels, scope.addr), &tls);
        let transport = &scope.ctx.families.transport;
        Self {
            tls,
            connections: transport.series(scope.server_labels(labels)),
            permits: RefCell::default(),
        }
    }

    /// Series of the clients' connections.
    pub fn connections(&self) -> Arc<TransportSeries> {
        self.connections.clone()
    }

    /// The series of the requests that a rule and an authorization let in.
    pub fn permit(
        &self,
        scope: &PolicyScope,
        rule: usize,
        authorization: &Authorization,
    ) -> Rc<RoutePermit> {
        let key = PermitKey {
            rule,
            authz: authorization.meta.clone(),
        };
        let mut permits = self.permits.borrow_mut();
        if permits.len() >= MAX_PERMITS && !permits.contains_key(&key) {
            permits.clear();
        }
        let new = || Rc::new(self.new_permit(scope, rule, authorization));
        permits.entry(key).or_insert_with(new).clone()
    }

    fn new_permit(
        &self,
        scope: &PolicyScope,
        rule: usize,
        authorization: &Authorization,
    ) -> RoutePermit {
        let families = &scope.ctx.families;
        let policy = &scope.policy;
        let routes = policy.http().map_or(&[][..], |http| http.routes.rules());
        let route = |labels| match routes.get(rule) {
            Some(route) => inbound_meta_labels(labels, "route", &route.meta),
            None => labels,
        };
        let authz = |labels| inbound_meta_labels(labels, "authz", &authorization.meta);
        let allowed = authz(route(scope.target_labels(Labels::new())));
        let allowed = client_tls_labels(allowed, &self.tls);
        let parent = inbound_meta_labels(Labels::new(), "parent", &policy.meta)
            .with("parent_port", scope.addr.port());
        let inbound = Labels::new().with("direction", "inbound");
        let application = client_tls_labels(target_labels(Labels::new(), scope.addr), &self.tls);
        let application = authz(route(scope.server_labels(application)));
        let (route_families, grpc) = match &policy.protocol {
            ServerProtocol::Grpc(_) => (&families.inbound.grpc_route, true),
            _ => (&families.inbound.http_route, false),
        };
        RoutePermit {
            allowed: families.inbound.http_allow.get(allowed),
            route: InboundRouteMetrics::new(route_families, route(parent).into(), grpc),
            application: Rc::new(EndpointSeries::new(
                &families.endpoint,
                inbound.clone().and(&application).into(),
                scope.addr,
            )),
            by_authority: scope.ctx.authority_labels.then(|| {
                AuthoritySeries::new(&families.endpoint, scope.addr, (inbound, application))
            }),
            route_name: routes
                .get(rule)
                .map_or_else(|| "".into(), |route| route.meta.to_string().into()),
            audit: authorization.is_audit().then(|| authorization.meta.clone()),
        }
    }
}

/// The rules, with their authorizations, whose series are kept for clients of one TLS status.
const MAX_PERMITS: usize = 1024;
