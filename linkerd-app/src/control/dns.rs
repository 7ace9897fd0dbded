//! Resolving the controllers' names, and counting it.

use crate::config;
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
};
use linkerd_discover::dns::{
    self, AddressAnswer, AddressSet, ControlAddr, DnsError, Resolutions, Resolve, SrvAnswer,
};
use linkerd_proxy_core::{Backoff, metrics::Registry};
use std::{fmt::Write, sync::Arc};
use tokio::sync::watch;

/// How one controller's name is resolved.
pub(super) struct Lookup {
    /// `None` when no configured address needs one.
    pub(super) resolver: Option<Arc<dyn Resolve>>,
    pub(super) resolutions: Arc<Resolutions>,
}

/// The counts of each client.
pub(super) struct Clients {
    pub(super) destination: Arc<Resolutions>,
    pub(super) policy: Arc<Resolutions>,
}

impl Lookup {
    /// Follows the addresses of a controller.
    pub(super) fn watch(
        self,
        addr: &config::Addr,
        backoff: Backoff,
    ) -> watch::Receiver<Option<Arc<AddressSet>>> {
        let addr = match addr {
            config::Addr::Ip(addr) => ControlAddr::Socket(*addr),
            config::Addr::Name { host, port } => ControlAddr::Name {
                host: host.clone(),
                port: *port,
            },
        };
        let resolver = self.resolver.unwrap_or_else(|| Arc::new(NoResolver));
        let runtime = tokio::runtime::Handle::current();
        dns::watch(addr, resolver, backoff, self.resolutions, &runtime)
    }
}

/// Adds `control_dns_resolutions_total` to the metrics.
pub(super) fn register(registry: &Registry) -> Clients {
    let clients = Clients {
        destination: Arc::default(),
        policy: Arc::default(),
    };
    let counted = [
        ("destination", clients.destination.clone()),
        ("policy", clients.policy.clone()),
    ];
    registry.collect(move |out| {
        out.push_str("# HELP control_dns_resolutions DNS resolutions of controllers.\n");
        out.push_str("# TYPE control_dns_resolutions counter\n");
        for (client, resolutions) in &counted {
            for (record_type, result, count) in resolutions.series() {
                writeln!(
                    out,
                    "control_dns_resolutions_total{{client=\"{client}\",record_type=\"{record_type}\",result=\"{result}\"}} {count}"
                )
                .expect("writing to a string does not fail");
            }
        }
    });
    clients
}

/// Stands where no name has to be resolved.
struct NoResolver;

impl NoResolver {
    fn fail<T: Send + 'static>() -> BoxFuture<'static, Result<T, DnsError>> {
        let message = "no resolver is needed for addresses".to_owned();
        ready(Err(DnsError {
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
