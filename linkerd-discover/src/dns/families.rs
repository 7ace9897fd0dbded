//! Queries for both families of addresses: a server that answers one of the two (some never answer AAAA) does not hide
//! its answer.

use super::resolve::{AddressAnswer, DnsError};
use futures::future::{Either, select};
use std::{net::IpAddr, pin::pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// A query of one family without records.
#[derive(Clone, Debug)]
pub(super) struct QueryFailure {
    /// The name does not exist (NXDOMAIN), in either family.
    pub(super) no_such_name: bool,
    pub(super) error: DnsError,
}

/// The records of one family with their time to live.
pub(super) type FamilyAnswer = Result<(Vec<IpAddr>, Duration), QueryFailure>;

/// The answers for one name.
#[derive(Debug)]
pub(super) struct NameAnswer {
    v4: FamilyAnswer,
    v6: FamilyAnswer,
}

impl NameAnswer {
    pub(super) fn has_addresses(&self) -> bool {
        has_addresses(&self.v4) || has_addresses(&self.v6)
    }
}

/// Runs both queries. The later one is waited for shortly if the earlier one found addresses, and not at all if the name
/// does not exist.
pub(super) async fn both_families(
    v4: impl Future<Output = FamilyAnswer>,
    v6: impl Future<Output = FamilyAnswer>,
    deadline: Instant,
) -> NameAnswer {
    let (v4, v6) = (pin!(v4), pin!(v6));
    match timeout_at(deadline, select(v4, v6)).await {
        Ok(Either::Left((v4, v6))) => {
            let v6 = other(&v4, v6, deadline).await;
            NameAnswer { v4, v6 }
        }
        Ok(Either::Right((v6, v4))) => {
            let v4 = other(&v6, v4, deadline).await;
            NameAnswer { v4, v6 }
        }
        Err(_) => NameAnswer {
            v4: Err(no_answer()),
            v6: Err(no_answer()),
        },
    }
}

/// The answer for a name from those for the names of its search list, which ends with the first that has addresses.
pub(super) fn combine(mut answers: Vec<NameAnswer>) -> Result<AddressAnswer, DnsError> {
    let found = answers.pop_if(|answer| answer.has_addresses());
    let of = found.map_or(answers, |answer| vec![answer]);
    let (v4, v6): (Vec<_>, Vec<_>) = of.into_iter().map(|of| (of.v4, of.v6)).unzip();
    let (v4, v6) = (family(v4), family(v6));
    if let (Err(error), Err(_)) = (&v4, &v6) {
        return Err(error.clone());
    }
    let ttls = [&v4, &v6].map(|family| family.as_ref().ok().and_then(|family| family.1));
    let ipv4 = |ip| match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    };
    let ipv6 = |ip| match ip {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(_) => None,
    };
    Ok(AddressAnswer {
        v4: v4
            .ok()
            .map(|(ips, _)| ips.into_iter().filter_map(ipv4).collect()),
        v6: v6
            .ok()
            .map(|(ips, _)| ips.into_iter().filter_map(ipv6).collect()),
        ttl: ttls.into_iter().flatten().min().unwrap_or_default(),
    })
}

async fn other(
    first: &FamilyAnswer,
    other: impl Future<Output = FamilyAnswer>,
    deadline: Instant,
) -> FamilyAnswer {
    let wait = match first {
        Err(failure) if failure.no_such_name => return first.clone(),
        first if has_addresses(first) => LATER_FAMILY,
        _ => ONLY_FAMILY,
    };
    let deadline = deadline.min(Instant::now() + wait);
    let answer = timeout_at(deadline, other).await;
    answer.unwrap_or_else(|_| Err(no_answer()))
}

/// The addresses of a family, with a time to live unless they are none without one. A failure for any of the names is one,
/// as this name may have the addresses.
fn family(answers: Vec<FamilyAnswer>) -> Result<(Vec<IpAddr>, Option<Duration>), DnsError> {
    let mut none = (Vec::new(), None);
    for answer in answers {
        match answer {
            Ok((ips, ttl)) if !ips.is_empty() => return Ok((ips, Some(ttl))),
            Ok(_) => {}
            Err(QueryFailure { error, .. }) if error.is_negative => none.1 = error.negative_ttl,
            Err(QueryFailure { error, .. }) => return Err(error),
        }
    }
    Ok(none)
}

fn has_addresses(answer: &FamilyAnswer) -> bool {
    answer.as_ref().is_ok_and(|(ips, _)| !ips.is_empty())
}

fn no_answer() -> QueryFailure {
    QueryFailure {
        no_such_name: false,
        error: DnsError {
            is_negative: false,
            negative_ttl: None,
            message: "no answer in time".to_owned(),
        },
    }
}

/// Wait for the other family when one has addresses. Servers that answer both do so within a few milliseconds of each other.
const LATER_FAMILY: Duration = Duration::from_millis(200);

/// Wait for the other family when one has no addresses. A query whose packet is lost is sent again by the next resolution.
const ONLY_FAMILY: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
