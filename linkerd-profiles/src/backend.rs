//! Where a route sends what it matched.

use crate::meta::Meta;
use linkerd_proxy_core::{Destination, endpoint::Endpoint, http::QueueSettings};
use std::{sync::Arc, time::Duration};

/// How a route chooses a backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// There is none.
    #[default]
    Empty,
    /// The first that is available. Not empty.
    FirstAvailable(Vec<Backend>),
    /// At random, by weight, among those that are available.
    ///
    /// At least two, every weight is above 0, and the weights' sum fits a `u32`.
    RandomAvailable(Vec<(Backend, u32)>),
}

/// A place to send to.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Where it was configured.
    pub meta: Arc<Meta>,
    /// Bounds of its queue, as the policy has them.
    pub queue: QueueSettings,
    /// How it is reached.
    pub dispatcher: Dispatcher,
    /// What refuses connections to it (opaque and TLS routes).
    pub filter: Option<TcpFilter>,
}

/// How a backend is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatcher {
    /// Over the endpoints of a destination.
    Balance {
        /// The destination.
        destination: Destination,
        /// How load is estimated.
        load: PeakEwma,
    },
    /// To one endpoint.
    Forward(Arc<Endpoint>),
    /// Not at all; the message says why.
    Fail(String),
}

/// Load as an exponentially weighted moving average that follows peaks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeakEwma {
    /// What is assumed of an endpoint that was not measured yet.
    pub default_rtt: Duration,
    /// The window of the average.
    pub decay: Duration,
}

/// What refuses a connection before anything is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpFilter {
    /// The traffic is forbidden.
    Forbidden,
    /// The route or backend is misconfigured; the text says how.
    Invalid(String),
}

impl Distribution {
    /// The backends that could be chosen, in order.
    pub fn backends(&self) -> impl Iterator<Item = &Backend> {
        let (first, random): (&[Backend], &[(Backend, u32)]) = match self {
            Self::Empty => (&[], &[]),
            Self::FirstAvailable(backends) => (backends, &[]),
            Self::RandomAvailable(backends) => (&[], backends),
        };
        first
            .iter()
            .chain(random.iter().map(|(backend, _)| backend))
    }

    /// One backend, always.
    pub fn only(backend: Backend) -> Self {
        Self::FirstAvailable(vec![backend])
    }
}

impl Default for PeakEwma {
    /// What profiles have always been balanced with, as they say nothing about it.
    fn default() -> Self {
        Self {
            default_rtt: Duration::from_millis(30),
            decay: Duration::from_secs(10),
        }
    }
}
