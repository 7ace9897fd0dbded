//! The workers' handle for the profiles of the services that inbound requests address.

use super::{
    follow_profile::FollowProfile,
    service_profile::{ProfileLookup, ServiceProfile},
    shared_freshness::SharedFreshness,
};
use crate::{policies::NameMatcher, source::ProfileSource};
use linkerd_proxy_core::{
    Backoff, Destination,
    subscription::{
        Cache, CacheFull, CacheLimits, CachedEntry, Code, Lease, StreamLimits, StreamSettings,
    },
};
use serde_json::{Value, json};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The configuration of the profiles of services.
#[derive(Clone)]
pub struct ServiceProfilesConfig {
    /// Matches the names that have profiles; no call is made for others.
    pub names: NameMatcher,
    /// Bounds of each stream.
    pub limits: StreamLimits,
    /// The waits between streams.
    pub backoff: Backoff,
    /// The time for which an unused service is kept.
    pub idle_timeout: Duration,
    /// The most services.
    pub max_entries: usize,
}

/// The profiles of all services in use. Cheap to clone, to be shared by all threads.
///
/// A look-up takes one short lock and no wait. Bounds: `max_entries`; an unused service is evicted even while the control
/// plane is away: clients choose the names, and only metrics depend on them. Shown by [`inspect`](Self::inspect).
#[derive(Clone)]
pub struct ServiceProfiles {
    source: Arc<dyn ProfileSource>,
    names: NameMatcher,
    settings: Arc<StreamSettings>,
    cache: Cache<Destination, ServiceProfile, ProfileLookup>,
}

/// A service under watch; not evicted while the watch lives.
#[derive(Clone, Debug)]
pub struct ServiceProfileWatch {
    lease: Lease<ServiceProfile, ProfileLookup>,
}

impl ServiceProfiles {
    /// The profiles of a source. Their subscriptions are followed on `runtime`.
    pub fn new(
        source: impl ProfileSource,
        config: ServiceProfilesConfig,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let limits = CacheLimits {
            idle_timeout: config.idle_timeout,
            max_entries: config.max_entries,
        };
        Self {
            source: Arc::new(source),
            names: config.names,
            settings: Arc::new(StreamSettings {
                limits: config.limits,
                backoff: config.backoff,
                terminal: is_refusal,
            }),
            cache: Cache::new(limits, runtime),
        }
    }

    /// Whether a name, without a trailing dot, has a profile.
    pub fn has(&self, name: &str) -> bool {
        (self.names)(name)
    }

    /// Watches the profile of a service, which must have one. Fails if too many services are in use.
    pub fn watch(&self, name: &Destination) -> Result<ServiceProfileWatch, CacheFull> {
        let lease = self.cache.lease(
            name,
            || {
                let lookup = ProfileLookup {
                    asked_at: Instant::now(),
                    freshness: SharedFreshness::default(),
                };
                (ServiceProfile::Pending, lookup)
            },
            |publisher| {
                let (source, settings) = (self.source.clone(), self.settings.clone());
                let mut task = FollowProfile::new(name.clone(), publisher);
                async move { task.run(source, settings).await }
            },
        )?;
        Ok(ServiceProfileWatch { lease })
    }

    /// All services, for `/state`.
    pub fn inspect(&self) -> Value {
        let limits = self.cache.limits();
        json!({
            "limits": {
                "max_entries": limits.max_entries,
                "idle_timeout_ms": millis(limits.idle_timeout),
            },
            "size": self.cache.len(),
            "cache": self.cache.stats(),
            "services": self.cache.inspect(show),
        })
    }
}

impl fmt::Debug for ServiceProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProfiles")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl ServiceProfileWatch {
    /// The time of the service's first look-up, by any thread.
    pub fn asked_at(&self) -> Instant {
        self.lease.shared().asked_at
    }

    /// The profile, to be watched. Does not keep the service from eviction: keep the `ServiceProfileWatch` meanwhile.
    pub fn receiver(&self) -> watch::Receiver<ServiceProfile> {
        self.lease.values().clone()
    }
}

/// Codes that end the calls for a profile.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented
    )
}

fn show(cached: CachedEntry<'_, Destination, ServiceProfile, ProfileLookup>) -> Value {
    let (state, profile) = match &cached.state {
        ServiceProfile::Pending => ("pending", None),
        ServiceProfile::Found(profile) => ("found", Some(profile)),
        ServiceProfile::Refused => ("refused", None),
    };
    json!({
        "service": cached.key.as_str(),
        "handles": cached.leases,
        "idle_ms": cached.idle.map(millis),
        "freshness": cached.shared.freshness.get(),
        "state": state,
        "routes": profile.map(|profile| profile.routes.len()),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, ProfileUpdate, Target};
    use futures::{FutureExt, StreamExt, stream};
    use linkerd_proxy_core::subscription::{Call, Status};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use tokio::{
        runtime::Handle,
        time::{advance, sleep},
    };

    /// A source that refuses its first call, and then has a profile.
    #[derive(Clone, Default)]
    struct Late(Arc<AtomicUsize>);

    impl ProfileSource for Late {
        fn profiles(&self, target: &Target) -> Call<ProfileUpdate> {
            let Target::Name(name) = target else {
                unreachable!("services are named")
            };
            let profile = Profile {
                logical: Some(name.clone()),
                opaque: false,
                targets: Vec::new(),
                endpoint: None,
                routes: Vec::new(),
                retry_budget: None,
            };
            let is_first = self.0.fetch_add(1, SeqCst) == 0;
            async move {
                match is_first {
                    true => Err(Status::new(Code::InvalidArgument, "no such service")),
                    false => Ok(stream::iter([Ok(profile.into())])
                        .chain(stream::pending())
                        .boxed()),
                }
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_stands_for_a_minute_and_an_unused_service_leaves() {
        let source = Late::default();
        let config = ServiceProfilesConfig {
            names: Arc::new(|name| name.ends_with(".svc")),
            limits: StreamLimits::default(),
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 0.0).unwrap(),
            idle_timeout: Duration::from_secs(90),
            max_entries: 1,
        };
        let profiles = ServiceProfiles::new(source.clone(), config, Handle::current());
        assert!(profiles.has("web.svc") && !profiles.has("web.example"));
        let (web, api) = ("web.svc:80".parse().unwrap(), "api.svc:80".parse().unwrap());
        let watch = profiles.watch(&web).unwrap();
        let state = watch.receiver();
        sleep(Duration::from_secs(50)).await;
        assert!(matches!(*state.borrow(), ServiceProfile::Refused));
        assert_eq!(source.0.load(SeqCst), 1);
        sleep(Duration::from_secs(20)).await;
        assert!(matches!(*state.borrow(), ServiceProfile::Found(_)));
        assert_eq!(watch.asked_at().elapsed(), Duration::from_secs(70));
        assert!(profiles.watch(&api).is_err());
        drop(watch);
        advance(Duration::from_secs(80)).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(profiles.inspect()["size"], 1);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(profiles.inspect()["size"], 0);
    }
}
