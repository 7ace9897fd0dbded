//! The plan of a resolution: the next query, and its time. Pure.

use super::resolve::{AddressAnswer, DnsError, RecordType, SrvAnswer};
use linkerd_proxy_core::Backoff;
use rand::rngs::StdRng;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// The resolution of one name.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    port: u16,
    backoff: Backoff,
    failures: u32,
    /// The reason why SRV records cannot be used this time, so that addresses are queried.
    srv_failed: Option<DnsError>,
    /// The last A records, which stay in use while their query fails.
    last_v4: Vec<Ipv4Addr>,
    /// The last AAAA records.
    last_v6: Vec<Ipv6Addr>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// Query the records of [`Plan::next_query`].
    Query,
    /// Use these addresses, and query again after the TTL.
    Use {
        addrs: Vec<SocketAddr>,
        again_in: Duration,
    },
    /// Keep the present addresses, and query again after a wait.
    Retry { error: String, again_in: Duration },
    /// Use no addresses, as the name has none, and query again after a wait.
    Clear { error: String, again_in: Duration },
}

impl Plan {
    pub(super) fn new(port: u16, backoff: Backoff) -> Self {
        Self {
            port,
            backoff,
            failures: 0,
            srv_failed: None,
            last_v4: Vec::new(),
            last_v6: Vec::new(),
        }
    }

    pub(super) fn next_query(&self) -> RecordType {
        match self.srv_failed {
            None => RecordType::Srv,
            Some(_) => RecordType::Addresses,
        }
    }

    pub(super) fn srv(&mut self, answer: Result<SrvAnswer, DnsError>) -> Decision {
        let error = match answer {
            Ok(answer) => {
                let addrs = answer.targets.iter().filter_map(|(target, port)| {
                    // The target names a pod by its IP; another query would only repeat it.
                    Some(SocketAddr::new(dashed_ip(target)?, *port))
                });
                match self.usable(addrs.collect(), answer.ttl) {
                    Some(decision) => return decision,
                    None => DnsError {
                        is_negative: true,
                        negative_ttl: None,
                        message: "no SRV target begins with an IP".to_owned(),
                    },
                }
            }
            Err(error) => error,
        };
        self.srv_failed = Some(error);
        Decision::Query
    }

    pub(super) fn addresses(
        &mut self,
        answer: Result<AddressAnswer, DnsError>,
        rng: &mut StdRng,
    ) -> Decision {
        let srv = self.srv_failed.take();
        let error = match answer {
            Ok(answer) => {
                let ttl = answer.ttl;
                let addrs = self.merge(answer);
                match self.usable(addrs, ttl) {
                    Some(decision) => return decision,
                    None => DnsError {
                        is_negative: true,
                        negative_ttl: (!ttl.is_zero()).then_some(ttl),
                        message: "no addresses".to_owned(),
                    },
                }
            }
            Err(error) => error,
        };
        let negative_ttl = error
            .negative_ttl
            .or(srv.as_ref().and_then(|srv| srv.negative_ttl));
        let again_in = match negative_ttl {
            Some(ttl) => ttl.max(MIN_TTL),
            None => self.backoff.delay(self.failures, rng).max(MIN_RETRY),
        };
        self.failures = self.failures.saturating_add(1);
        // The addresses may have come from SRV records: without an answer about these they stay.
        let is_negative = error.is_negative && srv.as_ref().is_none_or(|srv| srv.is_negative);
        let srv = srv.map(|srv| srv.message).unwrap_or_default();
        let error = format!("SRV: {srv}; A/AAAA: {error}");
        match is_negative {
            true => Decision::Clear { error, again_in },
            false => Decision::Retry { error, again_in },
        }
    }

    /// The addresses of an answer, and the last ones of a family whose query failed.
    fn merge(&mut self, answer: AddressAnswer) -> Vec<SocketAddr> {
        if let Some(v4) = answer.v4 {
            self.last_v4 = v4;
        }
        if let Some(v6) = answer.v6 {
            self.last_v6 = v6;
        }
        let v4 = self.last_v4.iter().copied().map(IpAddr::from);
        let v6 = self.last_v6.iter().copied().map(IpAddr::from);
        v4.chain(v6)
            .map(|ip| SocketAddr::new(ip, self.port))
            .collect()
    }

    fn usable(&mut self, mut addrs: Vec<SocketAddr>, ttl: Duration) -> Option<Decision> {
        addrs.retain(|addr| addr.port() > 0 && !addr.ip().is_unspecified());
        addrs.sort_unstable();
        addrs.dedup();
        addrs.truncate(MAX_ADDRESSES);
        if addrs.is_empty() {
            return None;
        }
        self.failures = 0;
        let again_in = ttl.max(MIN_TTL);
        Some(Decision::Use { addrs, again_in })
    }
}

/// The IP that is written with dashes in the first label of a name: `10-0-0-1.web…`.
fn dashed_ip(name: &str) -> Option<IpAddr> {
    let label = name.split('.').next()?;
    label
        .replace('-', ".")
        .parse()
        .or_else(|_| label.replace('-', ":").parse())
        .ok()
}

/// The shortest time between queries: records with a shorter TTL, even 0, must not make the proxy flood DNS.
const MIN_TTL: Duration = Duration::from_secs(5);
/// The shortest wait after a failure: the backoff may be configured to start at 0.
const MIN_RETRY: Duration = Duration::from_millis(10);
/// The most addresses: a control plane has a handful of pods; more than this is a mistake.
pub(super) const MAX_ADDRESSES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const SECS: fn(u64) -> Duration = Duration::from_secs;

    fn plan() -> (Plan, StdRng) {
        let backoff = Backoff::new(Duration::from_millis(100), SECS(60), 0.0).unwrap();
        (Plan::new(8086, backoff), StdRng::seed_from_u64(1))
    }

    fn error(negative_ttl: Option<u64>) -> DnsError {
        DnsError {
            is_negative: false,
            negative_ttl: negative_ttl.map(SECS),
            message: "no records".into(),
        }
    }

    fn srv(targets: &[(&str, u16)], ttl: u64) -> Result<SrvAnswer, DnsError> {
        Ok(SrvAnswer {
            targets: targets
                .iter()
                .map(|(name, port)| ((*name).to_owned(), *port))
                .collect(),
            ttl: SECS(ttl),
        })
    }

    fn addresses(v4: Option<&[u8]>, v6: Option<&[u16]>) -> AddressAnswer {
        let of_v4 = |last: &u8| Ipv4Addr::new(10, 0, 0, *last);
        let of_v6 = |last: &u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, *last);
        AddressAnswer {
            v4: v4.map(|v4| v4.iter().map(of_v4).collect()),
            v6: v6.map(|v6| v6.iter().map(of_v6).collect()),
            ttl: SECS(0),
        }
    }

    #[test]
    fn srv_targets_spell_their_addresses() {
        let (mut plan, _) = plan();
        assert_eq!(plan.next_query(), RecordType::Srv);
        let answer = srv(
            &[
                ("10-0-0-2.linkerd-dst.svc.", 1),
                ("fd00--1.linkerd-dst.svc.", 2),
                ("10-0-0-1.linkerd-dst.svc.", 3),
                ("web.linkerd-dst.svc.", 4),
            ],
            30,
        );
        let Decision::Use { addrs, again_in } = plan.srv(answer) else {
            panic!("must be usable");
        };
        let addrs: Vec<_> = addrs.iter().map(ToString::to_string).collect();
        assert_eq!(addrs, ["10.0.0.1:3", "10.0.0.2:1", "[fd00::1]:2"]);
        assert_eq!(again_in, SECS(30));
        assert_eq!(
            plan.next_query(),
            RecordType::Srv,
            "next time from the start"
        );
    }

    #[test]
    fn addresses_are_asked_for_when_srv_is_of_no_use() {
        for unusable in [Err(error(None)), srv(&[], 30), srv(&[("web.svc.", 1)], 30)] {
            let (mut plan, mut rng) = plan();
            assert_eq!(plan.srv(unusable), Decision::Query);
            assert_eq!(plan.next_query(), RecordType::Addresses);
            let answer = addresses(Some(&[1]), Some(&[]));
            assert_eq!(
                plan.addresses(Ok(answer), &mut rng),
                Decision::Use {
                    addrs: vec![([10, 0, 0, 1], 8086).into()],
                    again_in: MIN_TTL
                }
            );
            assert_eq!(plan.next_query(), RecordType::Srv);
        }
    }

    #[test]
    fn failures_wait_for_the_negative_ttl_or_back_off() {
        let (mut plan, mut rng) = plan();
        let mut fails = |srv_ttl, ttl| {
            plan.srv(Err(error(srv_ttl)));
            match plan.addresses(Err(error(ttl)), &mut rng) {
                Decision::Retry { again_in, .. } => again_in,
                decision => panic!("{decision:?}"),
            }
        };
        assert_eq!(fails(Some(60), Some(30)), SECS(30));
        assert_eq!(fails(Some(60), None), SECS(60));
        assert_eq!(fails(None, Some(0)), MIN_TTL);
        // The fourth failure in a row.
        assert_eq!(fails(None, None), Duration::from_millis(800));
    }

    #[test]
    fn the_last_addresses_of_a_family_stay_while_its_query_fails() {
        let (mut plan, mut rng) = plan();
        let negative = || DnsError {
            is_negative: true,
            ..error(None)
        };
        let mut query = |srv: DnsError, answer| {
            plan.srv(Err(srv));
            match plan.addresses(answer, &mut rng) {
                Decision::Use { addrs, .. } => {
                    let ips = addrs.iter().map(|addr| addr.ip().to_string());
                    ips.collect::<Vec<_>>().join(" ")
                }
                Decision::Retry { .. } => "last".to_owned(),
                Decision::Clear { .. } => "none".to_owned(),
                Decision::Query => panic!("queried already"),
            }
        };
        for (answer, expected) in [
            (Ok(addresses(Some(&[1]), Some(&[2]))), "10.0.0.1 fd00::2"),
            (Ok(addresses(Some(&[3]), None)), "10.0.0.3 fd00::2"),
            (Ok(addresses(None, Some(&[]))), "10.0.0.3"),
            (Err(error(None)), "last"),
            (Ok(addresses(Some(&[]), Some(&[]))), "none"),
            (Ok(addresses(Some(&[]), None)), "none"),
            (Err(negative()), "none"),
        ] {
            assert_eq!(query(negative(), answer), expected);
        }
        let none = Ok(addresses(Some(&[]), Some(&[])));
        assert_eq!(query(error(None), none), "last", "SRV may have some");
    }
}
