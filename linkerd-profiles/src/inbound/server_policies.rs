//! The workers' handle for the policies of ports.

use super::{
    default_policy::DefaultServerPolicies,
    follow_port::FollowPort,
    server_policy::{ServerPolicy, ServerProtocol},
    shared_freshness::SharedFreshness,
    source::ServerPolicySource,
};
use linkerd_proxy_core::{
    Backoff,
    subscription::{
        Cache, CacheFull, CacheLimits, CachedEntry, Code, Freshness, Lease, StreamLimits,
        StreamSettings,
    },
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The configuration of the policies of ports.
#[derive(Clone, Debug)]
pub struct ServerPoliciesConfig {
    /// The policies of ports until the control plane has sent one.
    pub defaults: DefaultServerPolicies,
    /// The ports whose policies are watched from the start and forever.
    pub eager_ports: BTreeSet<u16>,
    /// Bounds of each stream.
    pub limits: StreamLimits,
    /// The waits between streams.
    pub backoff: Backoff,
    /// The time for which an unused port is kept.
    pub idle_timeout: Duration,
    /// The most ports, in addition to those that are watched forever.
    pub max_entries: usize,
}

/// The policies of all ports in use. Cheap to clone, to be shared by all threads.
///
/// A look-up takes one short lock and no wait: a port has its default policy until the control plane's first answer. Bounds:
/// `max_entries`. Shown by [`inspect`](Self::inspect).
#[derive(Clone)]
pub struct ServerPolicies {
    source: Arc<dyn ServerPolicySource>,
    defaults: Arc<DefaultServerPolicies>,
    settings: Arc<StreamSettings>,
    cache: PortCache,
    /// Leases of the ports that are watched forever.
    eager: Arc<Mutex<Vec<PortLease>>>,
}

type PortCache = Cache<u16, Arc<ServerPolicy>, SharedFreshness>;
type PortLease = Lease<Arc<ServerPolicy>, SharedFreshness>;

/// A port in the cache.
#[derive(Clone, Debug)]
pub struct KnownPort {
    /// The present policy of the port.
    pub policy: Arc<ServerPolicy>,
    /// The freshness of the policy; without an update it is the default policy.
    pub freshness: Freshness,
}

/// A port under watch; not evicted while the watch lives.
#[derive(Clone, Debug)]
pub struct ServerPolicyWatch {
    lease: PortLease,
}

impl ServerPolicies {
    /// The policies of a source. Their subscriptions are followed on `runtime`, those of eager ports from now on.
    pub fn new(
        source: impl ServerPolicySource,
        config: ServerPoliciesConfig,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let limits = CacheLimits {
            idle_timeout: config.idle_timeout,
            max_entries: config.max_entries.saturating_add(config.eager_ports.len()),
        };
        let policies = Self {
            source: Arc::new(source),
            defaults: Arc::new(config.defaults),
            settings: Arc::new(StreamSettings {
                limits: config.limits,
                backoff: config.backoff,
                terminal: is_refusal,
            }),
            cache: Cache::new(limits, runtime),
            eager: Arc::default(),
        };
        let eager = config.eager_ports.into_iter();
        let leases = eager.filter_map(|port| policies.lease(port).ok()).collect();
        *policies.eager.lock() = leases;
        policies
    }

    /// Watches the policy of a port. Fails if too many ports are in use.
    pub fn watch(&self, port: u16) -> Result<ServerPolicyWatch, CacheFull> {
        let lease = self.lease(port)?;
        Ok(ServerPolicyWatch { lease })
    }

    fn lease(&self, port: u16) -> Result<PortLease, CacheFull> {
        let default = self.defaults.of_port(port);
        self.cache.lease(
            &port,
            || (default.clone(), SharedFreshness::default()),
            |publisher| {
                let (source, settings) = (self.source.clone(), self.settings.clone());
                let mut task = FollowPort::new(port, publisher);
                async move { task.run(source, settings).await }
            },
        )
    }

    /// A port in the cache. Starts no look-up, and does not count as a use.
    pub fn peek(&self, port: u16) -> Option<KnownPort> {
        self.cache.peek(&port, |cached| KnownPort {
            policy: cached.state,
            freshness: cached.shared.get(),
        })
    }

    /// The default policy of a port.
    pub fn default_of(&self, port: u16) -> &Arc<ServerPolicy> {
        self.defaults.of_port(port)
    }

    /// The ports in the cache.
    pub fn ports(&self) -> Vec<u16> {
        self.cache.keys()
    }

    /// All ports, for `/state`.
    pub fn inspect(&self) -> Value {
        let limits = self.cache.limits();
        json!({
            "limits": {
                "max_entries": limits.max_entries,
                "idle_timeout_ms": millis(limits.idle_timeout),
            },
            "size": self.cache.len(),
            "cache": self.cache.stats(),
            "ports": self.cache.inspect(show),
        })
    }
}

impl fmt::Debug for ServerPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPolicies")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl ServerPolicyWatch {
    /// The present policy.
    pub fn current(&self) -> Arc<ServerPolicy> {
        self.lease.values().borrow().clone()
    }

    /// The policy, to be watched. Does not keep the port from eviction: keep the `ServerPolicyWatch` meanwhile.
    pub fn receiver(&self) -> watch::Receiver<Arc<ServerPolicy>> {
        self.lease.values().clone()
    }
}

/// Codes that end the calls for a policy.
fn is_refusal(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::FailedPrecondition)
}

fn show(cached: CachedEntry<'_, u16, Arc<ServerPolicy>, SharedFreshness>) -> Value {
    let policy = &cached.state;
    let protocol = match &policy.protocol {
        ServerProtocol::Detect { .. } => "detect",
        ServerProtocol::Http1(_) => "http/1",
        ServerProtocol::Http2(_) => "http/2",
        ServerProtocol::Grpc(_) => "grpc",
        ServerProtocol::Opaque => "opaque",
        ServerProtocol::Tls => "tls",
    };
    let rate_limit = policy.http().and_then(|http| http.rate_limit.as_ref());
    let authorizations = policy.authorizations.iter();
    let authorizations = authorizations.map(|it| it.meta.kind_and_name().to_string());
    json!({
        "port": cached.key,
        "handles": cached.leases,
        "idle_ms": cached.idle.map(millis),
        "pinned": cached.pinned,
        "freshness": cached.shared.get(),
        "server": policy.meta.kind_and_name().to_string(),
        "protocol": protocol,
        "authorizations": authorizations.collect::<Vec<_>>(),
        "routes": policy.http().map(|http| http.routes.rules().len()),
        "rate_limit": rate_limit.map(|limiter| limiter.inspect()),
        "invalid": policy.invalid,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
