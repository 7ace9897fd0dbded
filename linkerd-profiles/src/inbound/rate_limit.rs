//! Rate limits of a port's requests: in total, for each identity, and for named identities.

use super::gcra::{Bucket, Rate};
use crate::meta::Meta;
use linkerd_proxy_core::tls::Identity;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt, num::NonZeroU32, sync::Arc};
use tokio::time::Instant;

/// The configuration of rate limits, in requests per second. Each has a burst of one second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitSettings {
    /// The resource that configured the limits.
    pub meta: Arc<Meta>,
    /// The limit of all requests together.
    pub total: Option<NonZeroU32>,
    /// The limit of each identity. All clients without an identity count as one.
    pub per_identity: Option<NonZeroU32>,
    /// Limits of named identities, in place of `per_identity`.
    pub overrides: Vec<RateLimitOverride>,
}

/// The limit of named identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitOverride {
    /// The limit of all their requests together.
    pub limit: NonZeroU32,
    /// The identities.
    pub clients: Vec<Identity>,
}

/// The requests of a port that have passed its limits. Shared by all threads.
///
/// **Bounds**: [`MAX_IDENTITIES`] are distinguished; those beyond it count as one.
#[derive(Debug)]
pub struct RateLimiter {
    settings: RateLimitSettings,
    made: Instant,
    total: Bucket,
    overrides: HashMap<Identity, Arc<Limited>>,
    identities: Mutex<HashMap<Option<Identity>, Arc<Bucket>>>,
    other_identities: Arc<Bucket>,
}

/// The limit of one client, looked up once for a connection. A request takes no lock.
#[derive(Clone, Debug)]
pub enum ClientRateLimit {
    /// Only the total limit.
    None,
    /// The limit of its identity.
    Identity(IdentityBucket),
    /// The limit of an override that names its identity.
    Override(OverrideBucket),
}

/// The requests of an identity.
#[derive(Clone, Debug)]
pub struct IdentityBucket(Arc<Bucket>);

/// The requests of named identities.
#[derive(Clone, Debug)]
pub struct OverrideBucket(Arc<Limited>);

#[derive(Debug)]
struct Limited {
    rate: Rate,
    bucket: Bucket,
}

/// A request beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitExceeded {
    /// The scope of the limit.
    pub scope: RateLimitScope,
    /// The limit.
    pub per_second: NonZeroU32,
}

/// The scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimitScope {
    /// All requests.
    Total,
    /// Requests of an identity.
    Identity,
    /// Requests of named identities.
    Override,
}

impl RateLimiter {
    /// A limiter before any request.
    pub fn new(settings: RateLimitSettings) -> Self {
        let mut overrides = HashMap::new();
        for configured in &settings.overrides {
            let limited = Arc::new(Limited {
                rate: Rate::new(configured.limit),
                bucket: Bucket::default(),
            });
            let clients = configured.clients.iter();
            overrides.extend(clients.map(|client| (client.clone(), limited.clone())));
        }
        Self {
            settings,
            made: Instant::now(),
            total: Bucket::default(),
            overrides,
            identities: Mutex::default(),
            other_identities: Arc::default(),
        }
    }

    /// The configuration.
    pub fn settings(&self) -> &RateLimitSettings {
        &self.settings
    }

    /// The limit of a client.
    pub fn client(&self, identity: Option<&Identity>) -> ClientRateLimit {
        if let Some(limited) = identity.and_then(|identity| self.overrides.get(identity)) {
            return ClientRateLimit::Override(OverrideBucket(limited.clone()));
        }
        if self.settings.per_identity.is_none() {
            return ClientRateLimit::None;
        }
        let mut identities = self.identities.lock();
        let identity = identity.cloned();
        if let Some(known) = identities.get(&identity) {
            return ClientRateLimit::Identity(IdentityBucket(known.clone()));
        }
        if identities.len() >= MAX_IDENTITIES {
            let now = self.nanos(Instant::now());
            identities.retain(|_, bucket| Arc::strong_count(bucket) > 1 || !bucket.is_full(now));
        }
        let bucket = match identities.len() >= MAX_IDENTITIES {
            true => self.other_identities.clone(),
            false => identities.entry(identity).or_default().clone(),
        };
        ClientRateLimit::Identity(IdentityBucket(bucket))
    }

    /// Whether a request of a client may pass `now`. A request that a later limit refuses has counted towards the earlier one.
    pub fn admit(&self, client: &ClientRateLimit, now: Instant) -> Result<(), RateLimitExceeded> {
        let now = self.nanos(now);
        let limits = &self.settings;
        if let Some(limit) = limits.total {
            check(&self.total, Rate::new(limit), now, RateLimitScope::Total)?;
        }
        match (client, limits.per_identity) {
            (ClientRateLimit::Override(OverrideBucket(limited)), _) => {
                let scope = RateLimitScope::Override;
                check(&limited.bucket, limited.rate, now, scope)
            }
            (ClientRateLimit::Identity(IdentityBucket(bucket)), Some(limit)) => {
                check(bucket, Rate::new(limit), now, RateLimitScope::Identity)
            }
            (ClientRateLimit::Identity(_), None) | (ClientRateLimit::None, _) => Ok(()),
        }
    }

    /// The number of identities that are distinguished at present, and their limit, for `/state`.
    pub fn inspect(&self) -> Value {
        json!({ "identities": self.identities.lock().len(), "limit": MAX_IDENTITIES })
    }

    fn nanos(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.made).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX / 2)
    }
}

fn check(
    bucket: &Bucket,
    rate: Rate,
    now: u64,
    scope: RateLimitScope,
) -> Result<(), RateLimitExceeded> {
    match bucket.admit(rate, now) {
        true => Ok(()),
        false => Err(RateLimitExceeded {
            scope,
            per_second: rate.per_second(),
        }),
    }
}

impl PartialEq for RateLimiter {
    /// Equality of settings: the requests that have passed do not matter.
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl fmt::Display for RateLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = match self.scope {
            RateLimitScope::Total => "total",
            RateLimitScope::Identity => "per-identity",
            RateLimitScope::Override => "override",
        };
        write!(f, "{scope} rate limit exceeded: {}rps", self.per_second)
    }
}

/// The most identities with their own limit; more than the callers of one workload in a mesh.
const MAX_IDENTITIES: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn limit(per_second: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(per_second)
    }

    fn limiter(total: u32, per_identity: u32) -> RateLimiter {
        RateLimiter::new(RateLimitSettings {
            meta: Arc::new(Meta::new_default("test")),
            total: limit(total),
            per_identity: limit(per_identity),
            overrides: vec![RateLimitOverride {
                limit: limit(2).unwrap(),
                clients: vec![identity("a"), identity("b")],
            }],
        })
    }

    fn identity(name: &str) -> Identity {
        format!("{name}.test.local").parse().unwrap()
    }

    /// The number of requests that pass, out of ten.
    fn passing(limiter: &RateLimiter, client: &ClientRateLimit, now: Instant) -> usize {
        (0..10)
            .filter(|_| limiter.admit(client, now).is_ok())
            .count()
    }

    #[test]
    fn identities_have_limits_of_their_own_and_clients_without_one_share() {
        let (limiter, now) = (limiter(0, 1), Instant::now());
        let (c, d) = (identity("c"), identity("d"));
        for client in [Some(&c), Some(&d), None] {
            assert_eq!(passing(&limiter, &limiter.client(client), now), 1);
        }
        for client in [Some(&c), None] {
            assert_eq!(passing(&limiter, &limiter.client(client), now), 0);
        }
        let later = now + Duration::from_secs(2);
        assert_eq!(passing(&limiter, &limiter.client(Some(&c)), later), 1);
    }

    #[test]
    fn named_identities_share_the_limit_that_replaces_that_of_each() {
        let (limiter, now) = (limiter(0, 1), Instant::now());
        let [a, b] = ["a", "b"].map(|name| limiter.client(Some(&identity(name))));
        assert_eq!(passing(&limiter, &a, now), 2);
        assert_eq!(passing(&limiter, &b, now), 0);
        let exceeded = limiter.admit(&a, now).unwrap_err();
        assert_eq!(exceeded.to_string(), "override rate limit exceeded: 2rps");
    }

    #[test]
    fn the_total_comes_first() {
        let (limiter, now) = (limiter(3, 5), Instant::now());
        let client = limiter.client(None);
        assert_eq!(passing(&limiter, &client, now), 3);
        let exceeded = limiter.admit(&client, now).unwrap_err();
        assert_eq!(exceeded.scope, RateLimitScope::Total);
        assert_eq!(
            passing(&limiter, &limiter.client(Some(&identity("a"))), now),
            0
        );
    }

    #[test]
    fn identities_beyond_the_bound_count_as_one_until_others_are_idle() {
        let (limiter, now) = (limiter(0, 1), Instant::now());
        let kept: Vec<_> = (0..MAX_IDENTITIES)
            .map(|index| limiter.client(Some(&identity(&format!("c{index}")))))
            .collect();
        let [one, other] = ["x", "y"].map(|name| limiter.client(Some(&identity(name))));
        assert_eq!(passing(&limiter, &one, now), 1);
        assert_eq!(passing(&limiter, &other, now), 0);
        drop(kept);
        let own = limiter.client(Some(&identity("y")));
        assert_eq!(passing(&limiter, &own, now), 1);
    }
}
