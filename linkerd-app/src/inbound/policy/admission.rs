//! Admission of the requests of a connection.

use super::{
    PortPolicy,
    peer::{PolicyPeer, RoutePermit},
    snapshot::{PolicySnapshot, denial_cause},
};
use crate::metrics::{client_tls_labels, inbound_meta_labels};
use linkerd_profiles::{ClientRateLimit, InboundHttp, RateLimitScope};
use linkerd_proxy_core::{
    Error, Reason, http::HttpRequest, metrics::Labels, transport::ClientInfo,
};
use std::rc::Rc;
use tokio::time::Instant;

/// Lets the requests of one connection in, or refuses them, each by the policy at its arrival.
///
/// - **Fails as** `NoRoute`, `Unauthorized`, `InvalidRequest`, `RateLimited`, `InvalidPolicy`, and as filters fail.
/// - **Metrics**: `inbound_http_authz_*`, `inbound_http_route_not_found_total`, `inbound_http_local_ratelimit_total`.
pub struct Admission {
    port: Rc<PortPolicy>,
    client: Rc<ClientInfo>,
    /// The policy of the last request.
    snapshot: Rc<PolicySnapshot>,
    peer: Rc<PolicyPeer>,
    /// The rate limit of the client under that policy, once it is known.
    rate_limit: Option<ClientRateLimit>,
    /// The rule of the last request, and its permit.
    last: Option<(usize, Rc<RoutePermit>)>,
}

impl Admission {
    /// Admission of the requests of a client.
    pub fn new(port: Rc<PortPolicy>, client: Rc<ClientInfo>) -> Self {
        let snapshot = port.present();
        Self {
            peer: snapshot.peer(&client.tls),
            rate_limit: None,
            last: None,
            snapshot,
            client,
            port,
        }
    }

    /// Whether a request is let in: by its route, an authorization, filters and rate limits, in this order.
    pub fn admit<B>(&mut self, request: &mut HttpRequest<B>) -> Result<Rc<RoutePermit>, Error> {
        let admitted = self.admitted(request);
        admitted.map_err(|error| match error.reason() {
            Reason::Unauthorized | Reason::NoRoute | Reason::RateLimited => error
                .context(format!("server: {}", self.snapshot.scope().addr))
                .context(format!("client {}", self.client.addr)),
            _ => error,
        })
    }

    fn admitted<B>(&mut self, request: &mut HttpRequest<B>) -> Result<Rc<RoutePermit>, Error> {
        if !self.port.is_present(&self.snapshot) {
            self.follow();
        }
        let snapshot = self.snapshot.clone();
        let policy = snapshot.policy();
        if policy.invalid.is_some() {
            let detail = "invalid server policy: invalid server configuration";
            return Err(Error::new(Reason::InvalidPolicy).detail(detail));
        }
        // A port that has become opaque has no routes.
        let http = policy.http();
        let found = http.and_then(|http| Some((http, http.routes.find(request)?)));
        let (http, found) = found.ok_or_else(|| self.no_route())?;
        if http.routes.table().is_ambiguous(request) {
            let detail = "the target and Host name different hosts, and routes of this port are chosen by the host";
            return Err(Error::new(Reason::InvalidRequest).detail(detail));
        }
        if let Some(reading) = http.routes.ambiguity(request, found) {
            let detail = format!(
                "ambiguous: a server may read {reading}, for which other authorizations apply"
            );
            return Err(Error::new(Reason::InvalidRequest).detail(detail));
        }
        let permit = self.permit(found.index)?;
        permit.allowed.incr();
        if let Some(notes) = &request.context().notes {
            notes.of_route(&permit.route_name);
        }
        request.context_mut().matched_prefix = found.prefix;
        if http.routes.has_unknown_filter(found.index) {
            let detail = "invalid server policy: server policy configured with unknown filter";
            return Err(Error::new(Reason::InvalidPolicy).detail(detail));
        }
        if let Some(filters) = snapshot.filters(found.index) {
            filters.borrow_mut().apply(request)?;
        }
        self.check_rate(http)?;
        request.context_mut().route_series = Some(permit.series(request));
        Ok(permit)
    }

    /// Switches to the current policy.
    fn follow(&mut self) {
        self.snapshot = self.port.present();
        self.peer = self.snapshot.peer(&self.client.tls);
        self.rate_limit = None;
        self.last = None;
    }

    /// The permit of a rule's requests. It depends on nothing that changes as long as the connection and the policy last.
    fn permit(&mut self, rule: usize) -> Result<Rc<RoutePermit>, Error> {
        if let Some((known, permit)) = &self.last
            && *known == rule
            && permit.audit.is_none()
        {
            return Ok(permit.clone());
        }
        let (snapshot, client) = (&self.snapshot, &self.client);
        let policy = snapshot.policy();
        match policy.authorize_request(rule, client.addr, &client.tls) {
            Ok(authorization) => {
                let permit = self.peer.permit(snapshot.scope(), rule, authorization);
                if let Some(authz) = &permit.audit {
                    let rules = policy.http().map(|http| http.routes.rules());
                    let route = rules.and_then(|rules| rules.get(rule));
                    let route = route.map(|route| &*route.meta);
                    snapshot.log_audit(client.addr, &client.tls, route, authz);
                }
                self.last = Some((rule, permit.clone()));
                Ok(permit)
            }
            Err(denial) => {
                snapshot.report_denial(&denial, "Request denied");
                let labels = snapshot.scope().target_labels(Labels::new());
                let labels = match &denial.route {
                    Some(route) => inbound_meta_labels(labels, "route", route),
                    None => labels,
                };
                let denied = &snapshot.scope().ctx.families.inbound.http_deny;
                denied.get(client_tls_labels(labels, &client.tls)).incr();
                let detail = "unauthorized request on route";
                Err(Error::new(Reason::Unauthorized)
                    .detail(detail)
                    .source(denial_cause(&denial)))
            }
        }
    }

    fn no_route(&self) -> Error {
        let labels = self.snapshot.scope().target_labels(Labels::new());
        let family = &self.snapshot.scope().ctx.families.inbound.route_not_found;
        family
            .get(client_tls_labels(labels, &self.client.tls))
            .incr();
        Error::new(Reason::NoRoute).detail("no route found for request")
    }

    fn check_rate(&mut self, http: &InboundHttp) -> Result<(), Error> {
        let Some(limiter) = &http.rate_limit else {
            return Ok(());
        };
        let identity = self.client.tls.identity();
        let client = self
            .rate_limit
            .get_or_insert_with(|| limiter.client(identity));
        let Err(exceeded) = limiter.admit(client, Instant::now()) else {
            return Ok(());
        };
        let scope = match exceeded.scope {
            RateLimitScope::Total => "total",
            RateLimitScope::Identity | RateLimitScope::Override => "identity",
        };
        let labels = self.snapshot.scope().target_labels(Labels::new());
        let meta = &limiter.settings().meta;
        let labels = inbound_meta_labels(labels, "ratelimit", meta).with("ratelimit_scope", scope);
        let family = &self.snapshot.scope().ctx.families.inbound.rate_limited;
        family
            .get(client_tls_labels(labels, &self.client.tls))
            .incr();
        Err(Error::new(Reason::RateLimited).detail(exceeded.to_string()))
    }
}
