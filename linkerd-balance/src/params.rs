//! The parameters of a balancer.

use crate::Metrics;
use linkerd_proxy_core::{endpoint::LoadPenalty, http::QueueSettings};
use rand::rngs::SmallRng;
use std::{rc::Rc, time::Duration};

/// The parameters of a balancer.
pub struct Params {
    /// The backend's name in logs.
    pub name: String,
    /// Bounds of the queue: the number of waiting requests, and how long one waits.
    pub queue: QueueSettings,
    /// The estimation of load.
    pub load: LoadSettings,
    /// Counters and gauges.
    pub metrics: Metrics,
    /// The generator of random choices.
    pub rng: SmallRng,
    /// Called when a request waits and every endpoint refuses connections: discovery may hold a stale set.
    pub on_unreachable: Box<dyn Fn()>,
}

/// The estimation of an endpoint's load.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The estimate of an endpoint's latency before its first response.
    pub default_rtt: Duration,
    /// The decay time of an estimate.
    pub decay: Duration,
    /// The penalty of endpoints that answer that they are overloaded or broken.
    pub penalty: Option<Rc<LoadPenalty>>,
}

impl Default for LoadSettings {
    /// The incumbent's settings for profiles and controllers.
    fn default() -> Self {
        Self {
            default_rtt: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            penalty: None,
        }
    }
}
