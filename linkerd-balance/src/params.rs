//! The parameters of a balancer.

use crate::{Metrics, load_settings::LoadSettings, preferences::Preferences};
use linkerd_proxy_core::http::QueueSettings;
use rand::rngs::SmallRng;

/// The parameters of a balancer.
pub struct Params {
    /// The backend's name in logs.
    pub name: String,
    /// Bounds of the queue: the number of waiting requests, and the time that one waits.
    pub queue: QueueSettings,
    /// The estimation of load.
    pub load: LoadSettings,
    /// Preferences beyond the load.
    pub preferences: Option<Box<Preferences>>,
    /// Counters and gauges.
    pub metrics: Metrics,
    /// The generator of random choices.
    pub rng: SmallRng,
    /// Called when a request waits and every endpoint refuses connections: discovery may hold a stale set.
    pub on_unreachable: Box<dyn Fn()>,
}
