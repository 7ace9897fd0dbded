//! The workers' handle for policies and profiles.

use crate::{
    discovered::Discovered,
    follow::FollowTarget,
    source::{PolicySource, ProfileSource, Sources},
    state::{DiscoveryError, DiscoveryState, TargetFreshness},
    synthesize::PolicyDefaults,
    target::Target,
};
use linkerd_proxy_core::{
    Backoff, Destination,
    subscription::{
        Cache, CacheFull, CacheLimits, CachedEntry, Code, Freshness, Lease, Status, StreamLimits,
        StreamSettings,
    },
};
use serde_json::{Value, json};
use std::{fmt, net::IpAddr, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// Matches the IPs that have profiles (`LINKERD2_PROXY_DESTINATION_PROFILE_NETWORKS`).
pub type NetworkMatcher = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;
/// Matches the names that have profiles (`LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES`), given without a trailing dot.
pub type NameMatcher = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The configuration of the discovery of policies and profiles.
#[derive(Clone)]
pub struct PoliciesConfig {
    /// The IPs that have profiles; no call is made for others.
    pub profile_networks: NetworkMatcher,
    /// The names that have profiles; no call is made for others.
    pub profile_names: NameMatcher,
    /// Bounds of each stream.
    pub limits: StreamLimits,
    /// The waits between streams of policies.
    pub policy_backoff: Backoff,
    /// The waits between streams of profiles.
    pub profile_backoff: Backoff,
    /// The time for which an unused target is kept.
    pub idle_timeout: Duration,
    /// The most targets.
    pub max_entries: usize,
    /// The detection timeout of synthesized policies.
    pub detect_timeout: Duration,
    /// Whether a target without a policy is forwarded to itself, or to its profile's service.
    pub forward_unknown: bool,
}

/// The policies and profiles of all targets in use. Cheap to clone, to be shared by all threads.
///
/// A look-up takes one short lock and no wait. Bounds: `max_entries`. Shown by [`inspect`](Self::inspect).
#[derive(Clone)]
pub struct Policies {
    sources: Arc<Sources>,
    config: Arc<PoliciesConfig>,
    defaults: Arc<PolicyDefaults>,
    policy: Arc<StreamSettings>,
    profile: Arc<StreamSettings>,
    cache: Cache<Target, DiscoveryState, TargetFreshness>,
}

/// A target in the cache.
#[derive(Clone, Debug)]
pub struct KnownTarget {
    /// The present state.
    pub state: DiscoveryState,
    /// The freshness of its policy.
    pub policy_freshness: Freshness,
    /// The freshness of its profile.
    pub profile_freshness: Freshness,
}

/// The reason why a target cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too many targets are in use.
    #[error("too many targets: {0}")]
    Full(#[from] CacheFull),
}

/// A target under watch; not evicted while the watch lives.
#[derive(Clone, Debug)]
pub struct DiscoveryWatch {
    target: Target,
    lease: Lease<DiscoveryState, TargetFreshness>,
}

impl Policies {
    /// Discovery over a source of policies and a source of profiles. Their subscriptions are followed on `runtime`.
    pub fn new(
        policies: impl PolicySource,
        profiles: impl ProfileSource,
        config: PoliciesConfig,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let limits = CacheLimits {
            idle_timeout: config.idle_timeout,
            max_entries: config.max_entries,
        };
        let settings = |backoff, terminal| StreamSettings {
            limits: config.limits,
            backoff,
            terminal,
        };
        Self {
            sources: Arc::new(Sources {
                policies: Box::new(policies),
                profiles: Box::new(profiles),
            }),
            policy: Arc::new(settings(config.policy_backoff, policy_refused)),
            profile: Arc::new(settings(config.profile_backoff, profile_refused)),
            defaults: Arc::new(PolicyDefaults {
                detect_timeout: config.detect_timeout,
                forward_unknown: config.forward_unknown,
            }),
            config: Arc::new(config),
            cache: Cache::new(limits, runtime),
        }
    }

    /// Watches the policy and the profile of `target`.
    ///
    /// A refused target is looked up again after a second, however often it is used meanwhile.
    pub fn discover(&self, target: impl Into<Target>) -> Result<DiscoveryWatch, Error> {
        let target = target.into();
        let mut lease = self.lease(&target)?;
        let refused = match &*lease.values().borrow() {
            DiscoveryState::Failed(error) => error.at.elapsed() >= REFUSAL_STANDS,
            DiscoveryState::Pending | DiscoveryState::Ready(_) => false,
        };
        if refused {
            self.cache.retire(&target, &lease);
            lease = self.lease(&target)?;
        }
        Ok(DiscoveryWatch { target, lease })
    }

    fn lease(&self, target: &Target) -> Result<Lease<DiscoveryState, TargetFreshness>, Error> {
        let lease = self.cache.lease(
            target,
            || (DiscoveryState::Pending, TargetFreshness::default()),
            |publisher| {
                let has_profile = match target {
                    Target::Addr(addr) => (self.config.profile_networks)(addr.ip()),
                    Target::Name(name) => (self.config.profile_names)(name.name()),
                };
                let policy = self.policy.clone();
                let profile = has_profile.then(|| self.profile.clone());
                let sources = self.sources.clone();
                let mut task =
                    FollowTarget::new(sources, target.clone(), self.defaults.clone(), publisher);
                async move { task.run(policy, profile).await }
            },
        )?;
        Ok(lease)
    }

    /// A target in the cache. Starts no look-up, and does not count as a use.
    pub fn peek(&self, target: &Target) -> Option<KnownTarget> {
        self.cache.peek(target, |cached| KnownTarget {
            state: cached.state,
            policy_freshness: cached.shared.policy(),
            profile_freshness: cached.shared.profile(),
        })
    }

    /// The targets in the cache.
    pub fn targets(&self) -> Vec<Target> {
        self.cache.keys()
    }

    /// All targets, for `/state`.
    pub fn inspect(&self) -> Value {
        json!({
            "limits": {
                "max_entries": self.config.max_entries,
                "idle_timeout_ms": millis(self.config.idle_timeout),
            },
            "size": self.cache.len(),
            "cache": self.cache.stats(),
            "targets": self.cache.inspect(show),
        })
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PoliciesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliciesConfig")
            .field("limits", &self.limits)
            .field("idle_timeout", &self.idle_timeout)
            .field("max_entries", &self.max_entries)
            .finish_non_exhaustive()
    }
}

impl DiscoveryWatch {
    /// The target.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The present state.
    pub fn current(&self) -> DiscoveryState {
        self.lease.values().borrow().clone()
    }

    /// The state, to be watched. Does not keep the target from eviction: keep the `DiscoveryWatch` meanwhile.
    pub fn receiver(&self) -> watch::Receiver<DiscoveryState> {
        self.lease.values().clone()
    }

    /// Waits for a state that this handle has not returned yet; the first call returns at once.
    ///
    /// Pends forever once discovery has ended, with the process.
    pub async fn changed(&mut self) -> DiscoveryState {
        let values = self.lease.values_mut();
        if values.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        values.borrow_and_update().clone()
    }

    /// Waits for the control plane's first answer, without a limit: the caller sets one.
    pub async fn ready(&mut self) -> Result<Arc<Discovered>, Arc<DiscoveryError>> {
        let values = self.lease.values_mut();
        let state = values
            .wait_for(|state| !matches!(state, DiscoveryState::Pending))
            .await
            .map(|state| state.clone());
        match state {
            Ok(DiscoveryState::Ready(discovered)) => Ok(discovered),
            Ok(DiscoveryState::Failed(error)) => Err(error),
            Ok(DiscoveryState::Pending) | Err(_) => Err(Arc::new(DiscoveryError {
                target: self.target.clone(),
                status: Status::new(Code::Unavailable, "discovery has ended"),
                at: Instant::now(),
            })),
        }
    }
}

/// Codes that end the calls for a policy.
fn policy_refused(code: Code) -> bool {
    profile_refused(code) || matches!(code, Code::NotFound | Code::Unimplemented)
}

/// Codes that end the calls for a profile.
fn profile_refused(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::FailedPrecondition)
}

fn show(cached: CachedEntry<'_, Target, DiscoveryState, TargetFreshness>) -> Value {
    let mut shown = json!({
        "target": cached.key.to_string(),
        "handles": cached.leases,
        "idle_ms": cached.idle.map(millis),
        "pinned": cached.pinned,
        "policy_freshness": cached.shared.policy(),
        "profile_freshness": cached.shared.profile(),
    });
    match &cached.state {
        DiscoveryState::Pending => shown["state"] = json!("pending"),
        DiscoveryState::Failed(error) => {
            shown["state"] = json!("failed");
            shown["status"] = json!(error.status);
        }
        DiscoveryState::Ready(discovered) => {
            let policy = &discovered.policy;
            shown["state"] = json!("ready");
            shown["protocol"] = json!(format!("{:?}", discovered.protocol()));
            shown["policy"] = json!({
                "parent": policy.parent.to_string(),
                "invalid": policy.invalid,
            });
            shown["profile"] = json!(discovered.profile.as_ref().map(|profile| json!({
                "logical": profile.logical.as_ref().map(Destination::as_str),
                "opaque": profile.opaque,
                "targets": profile.targets.len(),
                "endpoint": profile.endpoint.as_ref().map(|endpoint| endpoint.addr),
                "routes": profile.routes.len(),
            })));
        }
    }
    shown
}

/// The time for which a refusal is kept: long enough that a persistent client does not reach the control plane with each
/// request, short enough that a new service is found.
const REFUSAL_STANDS: Duration = Duration::from_secs(1);

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
