//! The system's resolver.

use super::{
    families::{NameAnswer, QueryFailure, both_families, combine},
    resolve::{AddressAnswer, DnsError, Resolve, SrvAnswer},
};
use futures::{FutureExt, future::BoxFuture};
use hickory_resolver::{
    TokioResolver,
    config::{ResolverConfig, ResolverOpts},
    lookup::Lookup,
    net::{DnsError as HickoryDnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RData, RecordType},
    },
    system_conf::read_system_conf,
};
use std::{net::IpAddr, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A resolver configured by `/etc/resolv.conf` and `/etc/hosts`.
#[derive(Clone)]
pub struct SystemResolver {
    resolver: TokioResolver,
    search: Arc<SearchList>,
}

/// The domains that complete a relative name.
#[derive(Debug)]
struct SearchList {
    domains: Vec<Name>,
    /// Names with at least this many dots are tried as they are first.
    ndots: usize,
}

impl SystemResolver {
    /// Reads the system's configuration.
    pub fn new() -> Result<Self, DnsError> {
        let (config, mut options): (ResolverConfig, ResolverOpts) =
            read_system_conf().map_err(|error| failed(&error))?;
        // Answers are renewed when their TTL ends; a cache would return the same answer again.
        options.cache_size = 0;
        let domains = config.domain().into_iter().chain(config.search()).cloned();
        let search = SearchList {
            domains: domains.collect(),
            ndots: options.ndots,
        };
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        *builder.options_mut() = options;
        let resolver = builder.build().map_err(|error| failed(&error))?;
        Ok(Self {
            resolver,
            search: Arc::new(search),
        })
    }

    /// The records of one family.
    async fn family(
        &self,
        name: Name,
        record_type: RecordType,
    ) -> Result<(Vec<IpAddr>, Duration), QueryFailure> {
        let lookup = self.resolver.lookup(name, record_type).await;
        let lookup = lookup.map_err(|error| QueryFailure {
            no_such_name: error.is_nx_domain(),
            error: failed(&error),
        })?;
        let ips = lookup.answers().iter();
        let ips = ips.filter_map(|record| record.data.ip_addr()).collect();
        Ok((ips, ttl(&lookup)))
    }
}

impl SearchList {
    /// The absolute names of a name, in the order of their queries.
    fn names(&self, name: Name) -> Vec<Name> {
        if name.is_fqdn() {
            return vec![name];
        }
        let mut absolute = name.clone();
        absolute.set_fqdn(true);
        let completed = self.domains.iter();
        // A name that would become too long is left out.
        let completed = completed.filter_map(|domain| name.clone().append_domain(domain).ok());
        let mut names: Vec<_> = completed.collect();
        let dots = usize::from(name.num_labels()).saturating_sub(1);
        let at = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(at, absolute);
        names
    }
}

impl Resolve for SystemResolver {
    fn srv(&self, name: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>> {
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        async move {
            let lookup = resolver
                .srv_lookup(host(&name)?)
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
        let (this, name) = (self.clone(), name.to_owned());
        async move {
            let deadline = Instant::now() + ADDRESSES_WAIT;
            let mut answers: Vec<NameAnswer> = Vec::new();
            for name in this.search.names(host(&name)?) {
                let v4 = this.family(name.clone(), RecordType::A);
                let v6 = this.family(name, RecordType::AAAA);
                let answer = both_families(v4, v6, deadline).await;
                let found = answer.has_addresses();
                answers.push(answer);
                if found {
                    break;
                }
            }
            combine(answers)
        }
        .boxed()
    }
}

impl std::fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}

/// A host name. Unlike the resolver's own conversion, this allows `_` at any place of a label.
fn host(name: &str) -> Result<Name, DnsError> {
    Name::from_ascii(name).map_err(|error| failed(&error.into()))
}

fn ttl(lookup: &Lookup) -> Duration {
    let secs = lookup.answers().iter().map(|record| record.ttl).min();
    Duration::from_secs(secs.unwrap_or(0).into())
}

fn failed(error: &NetError) -> DnsError {
    let none = match error {
        NetError::Dns(HickoryDnsError::NoRecordsFound(none)) => Some(none),
        _ => None,
    };
    let negative_ttl = none.and_then(|none| none.negative_ttl);
    DnsError {
        is_negative: none.is_some_and(|none| {
            matches!(
                none.response_code,
                ResponseCode::NXDomain | ResponseCode::NoError
            )
        }),
        negative_ttl: negative_ttl.map(|secs| Duration::from_secs(secs.into())),
        message: error.to_string(),
    }
}

/// The limit of the queries of all names of the search list. It is shorter than the limits of the callers, to whom a
/// partial answer would be lost.
const ADDRESSES_WAIT: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_are_completed_like_those_of_the_system() {
        let name = |text: &str| Name::from_ascii(text).unwrap();
        let search = SearchList {
            domains: vec![name("shop.svc.test."), name("svc.test.")],
            ndots: 2,
        };
        let names = |text: &str| -> Vec<_> {
            let names = search.names(host(text).unwrap());
            names.iter().map(Name::to_ascii).collect()
        };
        assert_eq!(
            names("my_db"),
            ["my_db.shop.svc.test.", "my_db.svc.test.", "my_db."]
        );
        assert_eq!(
            names("a.b.c"),
            ["a.b.c.", "a.b.c.shop.svc.test.", "a.b.c.svc.test."]
        );
        assert_eq!(names("web.test."), ["web.test."]);
    }
}
