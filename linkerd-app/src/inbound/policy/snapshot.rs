//! One policy of an address, with the series and filters that are made for it.

use super::{peer::PolicyPeer, policy_context::PolicyContext, scope::PolicyScope};
use crate::{
    logging::LogLimit,
    metrics::{client_tls_labels, inbound_meta_labels},
    route_filters::RequestFilters,
};
use linkerd_profiles::{Denial, Meta, ServerPolicy};
use linkerd_proxy_core::{metrics::Labels, tls::TlsStatus};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};
use tokio::time::Instant;

/// One policy of an address, with the series and filters that are made for it. Connections and requests that began with it
/// keep it.
///
/// - **Bounds**: [`MAX_PEERS`] identities of clients; those that no connection uses make room.
pub struct PolicySnapshot {
    scope: PolicyScope,
    /// By the index of the rule.
    filters: Box<[OnceCell<RefCell<RequestFilters>>]>,
    /// Clients by their TLS status.
    peers: RefCell<HashMap<TlsStatus, Rc<PolicyPeer>>>,
    /// The log lines of denials and of audited admissions, which peers can provoke.
    log: LogLimit,
}

impl PolicySnapshot {
    pub(super) fn new(
        ctx: &Rc<PolicyContext>,
        addr: SocketAddr,
        policy: Arc<ServerPolicy>,
    ) -> Rc<Self> {
        let rules = policy.http().map_or(0, |http| http.routes.rules().len());
        Rc::new(Self {
            scope: PolicyScope {
                ctx: ctx.clone(),
                addr,
                policy,
            },
            filters: (0..rules).map(|_| OnceCell::new()).collect(),
            peers: RefCell::default(),
            log: LogLimit::default(),
        })
    }

    /// The policy, and its labels.
    pub fn scope(&self) -> &PolicyScope {
        &self.scope
    }

    /// The policy.
    pub fn policy(&self) -> &ServerPolicy {
        &self.scope.policy
    }

    /// The clients of a TLS status.
    pub fn peer(&self, tls: &TlsStatus) -> Rc<PolicyPeer> {
        let mut peers = self.peers.borrow_mut();
        // Each connection is a use of its client's label.
        let labelled = self
            .scope
            .ctx
            .client_identities
            .labelled(tls, Instant::now());
        if let Some(peer) = peers.get(tls) {
            return peer.clone();
        }
        if peers.len() >= MAX_PEERS {
            peers.retain(|_, peer| Rc::strong_count(peer) > 1);
        }
        let peer = Rc::new(PolicyPeer::new(&self.scope, labelled));
        if peers.len() < MAX_PEERS {
            peers.insert(tls.clone(), peer.clone());
        }
        peer
    }

    /// The filters of a rule; `None` if it has none.
    pub fn filters(&self, rule: usize) -> Option<&RefCell<RequestFilters>> {
        let filters = &self.policy().http()?.routes.rules()[rule].filters;
        if filters.is_empty() {
            return None;
        }
        let rng = || SmallRng::from_rng(&mut rand::rng());
        let new = || RefCell::new(RequestFilters::new(filters, rng()));
        Some(self.filters[rule].get_or_init(new))
    }

    /// Counts a denial, and logs it unless there are too many lines.
    ///
    /// **Metrics**: `inbound_authz_denials_total`, without the client's address, which has no bound.
    pub fn report_denial(&self, denial: &Denial, message: &'static str) {
        let labels = inbound_meta_labels(Labels::new(), "srv", &denial.server);
        let labels = match &denial.route {
            Some(route) => inbound_meta_labels(labels, "route", route),
            None => labels,
        };
        let labels = match &denial.nearest {
            Some(nearest) => inbound_meta_labels(labels, "nearest", &nearest.meta)
                .with("unmet", nearest.unmet.label()),
            None => labels.with("unmet", "no authorization"),
        };
        let denials = &self.scope().ctx.families.inbound.denials;
        denials.get(client_tls_labels(labels, &denial.tls)).incr();
        self.log_denial(denial, message);
    }

    fn log_denial(&self, denial: &Denial, message: &'static str) {
        let Some(unreported) = self.log.take(Instant::now()) else {
            return;
        };
        let text = |meta: &Meta| meta.kind_and_name().to_string();
        let nearest = denial.nearest.as_ref();
        tracing::info!(
            client.addr = %denial.client,
            client.id = %Identified(&denial.tls),
            server = %text(&denial.server),
            route = denial.route.as_deref().map(text),
            nearest = nearest.map(|nearest| text(&nearest.meta)),
            unmet = nearest.map(|nearest| nearest.unmet.label()),
            unreported,
            "{message}",
        );
    }

    /// Logs an admission that another policy would deny, unless there are too many.
    pub fn log_audit(
        &self,
        client: SocketAddr,
        tls: &TlsStatus,
        route: Option<&Meta>,
        authz: &Meta,
    ) {
        let Some(unreported) = self.log.take(Instant::now()) else {
            return;
        };
        tracing::info!(
            client.addr = %client,
            client.id = %Identified(tls),
            server = %self.policy().meta.kind_and_name(),
            route = route.map(|route| route.kind_and_name().to_string()),
            authz = %authz.kind_and_name(),
            unreported,
            "Request allowed",
        );
    }
}

/// The cause of a denial, for the proxy's own records: a client must not learn whom a policy lets in.
pub fn denial_cause(denial: &Denial) -> String {
    let identity = Identified(&denial.tls);
    match &denial.nearest {
        Some(nearest) => format!(
            "the client's identity: {identity}; nearest authorization: {}; unmet condition: {}",
            nearest.meta.kind_and_name(),
            nearest.unmet,
        ),
        None => format!("the client's identity: {identity}; there is no authorization"),
    }
}

/// The identity of a client, or the reason why there is none.
struct Identified<'a>(&'a TlsStatus);

impl std::fmt::Display for Identified<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            TlsStatus::None(reason) => write!(f, "none ({})", reason.label()),
            TlsStatus::Meshed(Some(identity)) => identity.fmt(f),
            TlsStatus::Meshed(None) => f.write_str("none (no client certificate)"),
            TlsStatus::Passthrough { server_name } => {
                write!(f, "none (TLS for {server_name} is passed through)")
            }
        }
    }
}

/// The most TLS statuses of clients that are kept at a time.
const MAX_PEERS: usize = 1024;
