//! Settings of the load estimate.

use linkerd_proxy_core::endpoint::LoadPenalty;
use std::{rc::Rc, time::Duration};

/// Settings of the load estimate of endpoints.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The measure of load.
    pub kind: LoadKind,
    /// The estimate of an endpoint's latency before its first response.
    pub default_rtt: Duration,
    /// The decay time of an estimate.
    pub decay: Duration,
    /// The penalty of endpoints that answer that they are overloaded or broken.
    pub penalty: Option<Rc<LoadPenalty>>,
}

/// The measure of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadKind {
    /// The estimated latency, times the requests in flight until the first frame of their response.
    #[default]
    PeakEwma,
    /// The requests in flight until the end of their response: for mixtures of long and short requests, whose latency says
    /// little about an endpoint.
    LeastPending,
}

impl Default for LoadSettings {
    /// The incumbent's settings for profiles and controllers.
    fn default() -> Self {
        Self {
            kind: LoadKind::default(),
            default_rtt: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            penalty: None,
        }
    }
}
