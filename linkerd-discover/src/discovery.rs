//! The workers' handle for endpoint discovery.

use crate::{
    endpoints::{EndpointSet, Resolution},
    feedback::{DestinationFeedback, DiscoveryCounters, DiscoveryStats},
    follow::FollowDestination,
    source::EndpointSource,
};
use linkerd_proxy_core::{
    Backoff, Destination,
    subscription::{
        Cache, CacheFull, CacheLimits, CachedEntry, Code, Lease, Status, StreamLimits,
        StreamSettings,
    },
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The configuration of endpoint discovery.
#[derive(Clone, Debug)]
pub struct DiscoveryConfig {
    /// Bounds of each stream.
    pub limits: StreamLimits,
    /// The waits between streams.
    pub backoff: Backoff,
    /// The time for which an unused destination is kept.
    pub idle_timeout: Duration,
    /// The most destinations.
    pub max_destinations: usize,
    /// The most endpoints of one destination; further ones are ignored.
    pub max_endpoints: usize,
}

/// The endpoints of every destination in use. Cheap to clone, to be shared by all threads.
///
/// A look-up takes one short lock and no wait. Bounds: `max_destinations`, `max_endpoints`. Shown by
/// [`inspect`](Self::inspect).
#[derive(Clone)]
pub struct Discovery {
    source: Arc<dyn EndpointSource>,
    config: Arc<DiscoveryConfig>,
    cache: Cache<Destination, Resolution, DestinationFeedback>,
    settings: Arc<StreamSettings>,
    totals: Arc<DiscoveryCounters>,
}

/// A destination under watch; not evicted while the watch lives.
#[derive(Clone, Debug)]
pub struct EndpointWatch {
    destination: Destination,
    lease: Lease<Resolution, DestinationFeedback>,
}

/// The reason why a destination cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too many destinations are in use.
    #[error("too many destinations: {0}")]
    Full(#[from] CacheFull),
}

impl Discovery {
    /// Discovery over a source of endpoints. Its subscriptions are followed on `runtime`.
    pub fn new(
        source: impl EndpointSource,
        config: DiscoveryConfig,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let limits = CacheLimits {
            idle_timeout: config.idle_timeout,
            max_entries: config.max_destinations,
        };
        let settings = StreamSettings {
            limits: config.limits,
            backoff: config.backoff,
            terminal: |code| matches!(code, Code::InvalidArgument | Code::FailedPrecondition),
        };
        Self {
            source: Arc::new(source),
            settings: Arc::new(settings),
            config: Arc::new(config),
            cache: Cache::new(limits, runtime),
            totals: Arc::new(DiscoveryCounters::default()),
        }
    }

    /// Watches the endpoints of a destination.
    pub fn endpoints(&self, destination: &Destination) -> Result<EndpointWatch, Error> {
        let lease = self.cache.lease(
            destination,
            || (Resolution::Pending, DestinationFeedback::default()),
            |publisher| {
                let mut task = FollowDestination::new(
                    self.source.clone(),
                    destination.clone(),
                    self.config.max_endpoints,
                    self.settings.clone(),
                    publisher,
                    self.totals.clone(),
                );
                async move { task.run().await }
            },
        )?;
        Ok(EndpointWatch {
            destination: destination.clone(),
            lease,
        })
    }

    /// The figures of all destinations, for metrics.
    pub fn stats(&self) -> DiscoveryStats {
        self.totals.stats()
    }

    /// All destinations, for `/state`.
    pub fn inspect(&self) -> Value {
        json!({
            "limits": {
                "max_destinations": self.config.max_destinations,
                "max_endpoints": self.config.max_endpoints,
                "idle_timeout_ms": millis(self.config.idle_timeout),
            },
            "size": self.cache.len(),
            "cache": self.cache.stats(),
            "counters": self.stats(),
            "destinations": self.cache.inspect(show),
        })
    }
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl EndpointWatch {
    /// The destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The present state.
    pub fn current(&self) -> Resolution {
        self.lease.values().borrow().clone()
    }

    /// The state, to be watched. Does not keep the destination from eviction: keep the `EndpointWatch` meanwhile.
    pub fn receiver(&self) -> watch::Receiver<Resolution> {
        self.lease.values().clone()
    }

    /// The present state, if this handle has not returned it yet; the first call always yields. For use in `poll_ready`.
    pub fn take_changed(&mut self) -> Option<Resolution> {
        let values = self.lease.values_mut();
        if values.has_changed().unwrap_or(false) {
            return Some(values.borrow_and_update().clone());
        }
        None
    }

    /// Waits for a state that this handle has not returned yet; the first call returns at once.
    ///
    /// Pends forever once discovery has ended, with the process.
    pub async fn changed(&mut self) -> Resolution {
        let values = self.lease.values_mut();
        if values.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        values.borrow_and_update().clone()
    }

    /// Waits for the control plane's first answer, without a limit: the caller sets one.
    pub async fn resolved(&mut self) -> Result<Arc<EndpointSet>, Arc<Status>> {
        let values = self.lease.values_mut();
        let resolution = values
            .wait_for(|resolution| !matches!(resolution, Resolution::Pending))
            .await
            .map(|resolution| resolution.clone());
        match resolution {
            Ok(Resolution::Known(set)) => Ok(set),
            Ok(Resolution::Rejected(status)) => Err(status),
            Ok(Resolution::Pending) | Err(_) => Err(Arc::new(Status::new(
                Code::Unavailable,
                "discovery has ended",
            ))),
        }
    }

    /// Reports that *every* endpoint of the set fails to connect: the set may be stale.
    ///
    /// A second stream is opened, at most one at a time and one in 10 s, and its first endpoints are compared with the
    /// set. Cheap, so that every failure may be reported.
    pub fn report_unreachable(&self) {
        self.lease.shared().report_unreachable();
    }
}

fn show(cached: CachedEntry<'_, Destination, Resolution, DestinationFeedback>) -> Value {
    let mut shown = json!({
        "destination": cached.key.as_str(),
        "handles": cached.leases,
        "idle_ms": cached.idle.map(millis),
        "pinned": cached.pinned,
        "freshness": cached.shared.freshness(),
        "counters": cached.shared.counts.stats(),
    });
    match &cached.state {
        Resolution::Pending => shown["state"] = json!("pending"),
        Resolution::Rejected(status) => {
            shown["state"] = json!("rejected");
            shown["status"] = json!(**status);
        }
        Resolution::Known(set) => {
            shown["state"] = json!("known");
            shown["exists"] = json!(set.exists);
            shown["changed_at_generation"] = json!(set.generation);
            shown["unchanged_ms"] = json!(millis(set.received_at.elapsed()));
            shown["endpoints"] = set
                .endpoints
                .values()
                .map(|endpoint| {
                    json!({
                        "addr": endpoint.addr,
                        "weight": endpoint.weight,
                        "labels": endpoint.labels,
                        "identity": endpoint.tls.as_ref().map(|tls| tls.identity.as_str()),
                    })
                })
                .collect();
        }
    }
    shown
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
