//! The system's resolver.

use super::resolve::{AddressAnswer, DnsError, Resolve, SrvAnswer};
use futures::{FutureExt, future::BoxFuture};
use hickory_resolver::{
    TokioResolver,
    config::ResolverOpts,
    lookup::Lookup,
    net::{DnsError as HickoryDnsError, NetError},
    proto::rr::RData,
};
use std::time::Duration;

/// A resolver configured by `/etc/resolv.conf` and `/etc/hosts`.
#[derive(Clone)]
pub struct SystemResolver {
    resolver: TokioResolver,
}

impl SystemResolver {
    /// Reads the system's configuration.
    pub fn new() -> Result<Self, DnsError> {
        let mut builder = TokioResolver::builder_tokio().map_err(|error| failed(&error))?;
        let options: &mut ResolverOpts = builder.options_mut();
        // Answers are renewed when their TTL ends; a cache would return the same answer again.
        options.cache_size = 0;
        let resolver = builder.build().map_err(|error| failed(&error))?;
        Ok(Self { resolver })
    }
}

impl Resolve for SystemResolver {
    fn srv(&self, name: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>> {
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        async move {
            let lookup = resolver
                .srv_lookup(name)
                .await
                .map_err(|error| failed(&error))?;
            let targets = lookup
                .answers()
                .iter()
                .filter_map(|record| match &record.data {
                    RData::SRV(srv) => Some((srv.target.to_utf8(), srv.port)),
                    _ => None,
                })
                .collect();
            let ttl = ttl(&lookup);
            Ok(SrvAnswer { targets, ttl })
        }
        .boxed()
    }

    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<AddressAnswer, DnsError>> {
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        async move {
            let lookup = resolver
                .lookup_ip(name)
                .await
                .map_err(|error| failed(&error))?;
            Ok(AddressAnswer {
                ips: lookup.iter().collect(),
                ttl: ttl(lookup.as_lookup()),
            })
        }
        .boxed()
    }
}

impl std::fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}

fn ttl(lookup: &Lookup) -> Duration {
    let secs = lookup.answers().iter().map(|record| record.ttl).min();
    Duration::from_secs(secs.unwrap_or(0).into())
}

fn failed(error: &NetError) -> DnsError {
    let negative_ttl = match error {
        NetError::Dns(HickoryDnsError::NoRecordsFound(none)) => none
            .negative_ttl
            .map(|secs| Duration::from_secs(secs.into())),
        _ => None,
    };
    DnsError {
        negative_ttl,
        message: error.to_string(),
    }
}
