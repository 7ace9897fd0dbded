//! Resolution of the controllers' names, with its counters.

use crate::config;
use futures::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, ready},
};
use linkerd_discover::dns::{
    self, AddressAnswer, AddressSet, ControlAddr, DnsError, Resolutions, Resolve, SrvAnswer,
};
use linkerd_proxy_core::{
    Backoff,
    metrics::{Labels, MetricKind, Registry},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The resolution of one controller's name.
pub(super) struct NameLookup {
    /// `None` if all configured controllers are addresses.
    pub(super) resolver: Option<Arc<dyn Resolve>>,
    pub(super) resolutions: Arc<Resolutions>,
}

/// Counters of each client.
pub(super) struct DnsClients {
    pub(super) destination: Arc<Resolutions>,
    pub(super) policy: Arc<Resolutions>,
    pub(super) identity: Arc<Resolutions>,
    pub(super) trace_collector: Arc<Resolutions>,
}

impl NameLookup {
    /// Follows the addresses of a controller.
    pub(super) fn watch(
        self,
        addr: &config::Addr,
        backoff: Backoff,
    ) -> watch::Receiver<Option<Arc<AddressSet>>> {
        let addr = control_addr(addr);
        let resolver = self.resolver.unwrap_or_else(|| Arc::new(NoResolver));
        let runtime = tokio::runtime::Handle::current();
        dns::watch(addr, resolver, backoff, self.resolutions, &runtime)
    }
}

/// The address of a controller, for its resolution.
pub fn control_addr(addr: &config::Addr) -> ControlAddr {
    match addr {
        config::Addr::Ip(addr) => ControlAddr::Socket(*addr),
        config::Addr::Name { host, port } => ControlAddr::Name {
            host: host.clone(),
            port: *port,
        },
    }
}

/// Adds `control_dns_resolutions_total` to the metrics.
pub(super) fn register(registry: &Registry) -> DnsClients {
    let clients = DnsClients {
        destination: Arc::default(),
        policy: Arc::default(),
        identity: Arc::default(),
        trace_collector: Arc::default(),
    };
    let counted = [
        ("destination", clients.destination.clone()),
        ("policy", clients.policy.clone()),
        ("identity", clients.identity.clone()),
        ("trace_collector", clients.trace_collector.clone()),
    ];
    registry.collect(move |out| {
        let name = "control_dns_resolutions_total";
        out.head(MetricKind::Counter, name, "DNS resolutions of controllers.");
        for (client, resolutions) in &counted {
            for (record_type, result, count) in resolutions.series() {
                let labels = Labels::new()
                    .with("client", client)
                    .with("record_type", record_type)
                    .with("result", result);
                out.sample(name, &labels, count);
            }
        }
    });
    clients
}

/// A resolver that bounds the time to live of answers (`LINKERD2_PROXY_DNS_MIN_TTL`, `..._MAX_TTL`).
pub(super) struct BoundedTtl {
    pub(super) inner: Arc<dyn Resolve>,
    pub(super) bounds: config::DnsConfig,
}

impl BoundedTtl {
    fn bound(bounds: config::DnsConfig, ttl: Duration) -> Duration {
        let ttl = bounds.min_ttl.map_or(ttl, |min| ttl.max(min));
        bounds.max_ttl.map_or(ttl, |max| ttl.min(max))
    }
}

impl Resolve for BoundedTtl {
    fn srv(&self, name: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>> {
        let bounds = self.bounds;
        let bound = move |answer: SrvAnswer| SrvAnswer {
            ttl: Self::bound(bounds, answer.ttl),
            ..answer
        };
        self.inner.srv(name).map_ok(bound).boxed()
    }

    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<AddressAnswer, DnsError>> {
        let bounds = self.bounds;
        let bound = move |answer: AddressAnswer| AddressAnswer {
            ttl: Self::bound(bounds, answer.ttl),
            ..answer
        };
        self.inner.addresses(name).map_ok(bound).boxed()
    }
}

/// Resolver of a proxy without names to resolve.
struct NoResolver;

impl NoResolver {
    fn fail<T: Send + 'static>() -> BoxFuture<'static, Result<T, DnsError>> {
        let message = "no resolver is needed for addresses".to_owned();
        ready(Err(DnsError {
            is_negative: false,
            negative_ttl: None,
            message,
        }))
        .boxed()
    }
}

impl Resolve for NoResolver {
    fn srv(&self, _: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>> {
        Self::fail()
    }

    fn addresses(&self, _: &str) -> BoxFuture<'static, Result<AddressAnswer, DnsError>> {
        Self::fail()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_within_the_bounds() {
        let seconds = Duration::from_secs;
        let bounds = config::DnsConfig {
            min_ttl: Some(seconds(10)),
            max_ttl: Some(seconds(60)),
        };
        for (ttl, expected) in [(1, 10), (30, 30), (600, 60)] {
            assert_eq!(BoundedTtl::bound(bounds, seconds(ttl)), seconds(expected));
        }
        let unbounded = config::DnsConfig {
            min_ttl: None,
            max_ttl: None,
        };
        assert_eq!(BoundedTtl::bound(unbounded, seconds(600)), seconds(600));
    }
}
