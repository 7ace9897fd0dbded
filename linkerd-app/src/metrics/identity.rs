//! Families of the proxy's certificate.

use linkerd_proxy_core::metrics::{Counter, Family, Gauge, Labels, Registry, RegistryStyle};
use std::{
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

/// `control_identity_cert_*`
#[derive(Clone, Debug)]
pub struct IdentityFamilies {
    expiration: Family<Gauge>,
    refreshed: Family<Gauge>,
    refreshes: Family<Counter>,
    /// The times of the present certificate: a gauge lasts as long as its handle.
    times: Arc<OnceLock<CertificateTimes>>,
}

#[derive(Debug)]
struct CertificateTimes {
    expiration: Gauge,
    refreshed: Gauge,
}

impl IdentityFamilies {
    /// Declares the families.
    pub(super) fn register(registry: &Registry) -> Self {
        Self {
            expiration: registry.gauge(
                RegistryStyle::OpenMetrics,
                "control_identity_cert_expiration_timestamp_seconds",
                "Time when the certificate of the proxy expires, in seconds since 1970",
            ),
            refreshed: registry.gauge(
                RegistryStyle::OpenMetrics,
                "control_identity_cert_refresh_timestamp_seconds",
                "Time when the certificate of the proxy was last renewed, in seconds since 1970",
            ),
            refreshes: registry.counter(
                RegistryStyle::OpenMetrics,
                "control_identity_cert_refreshes_total",
                "Total count of requests for a certificate, by result",
            ),
            times: Arc::default(),
        }
    }

    /// Counts a certificate, and shows its times.
    pub fn certified(&self, valid_until: SystemTime, now: SystemTime) {
        let times = self.times.get_or_init(|| CertificateTimes {
            expiration: self.expiration.get(Labels::new()),
            refreshed: self.refreshed.get(Labels::new()),
        });
        times.expiration.set(seconds(valid_until));
        times.refreshed.set(seconds(now));
        self.count("ok");
    }

    /// Counts a request that failed.
    pub fn failed(&self) {
        self.count("error");
    }

    fn count(&self, result: &str) {
        let labels = Labels::new().with("result", result);
        self.refreshes.get(labels).incr();
    }
}

fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
