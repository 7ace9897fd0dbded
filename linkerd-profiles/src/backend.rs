//! The backends of a route.

use crate::meta::Meta;
use linkerd_proxy_core::{
    Destination,
    endpoint::{Endpoint, FailureAccrual, LoadPenalty},
};
use std::{sync::Arc, time::Duration};

/// The choice among a route's backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution<B = Backend> {
    /// No backend.
    #[default]
    Empty,
    /// No backend with a weight above 0: requests fail as `NoBackend`.
    Weightless,
    /// The first available backend. Not empty.
    FirstAvailable(Vec<B>),
    /// A random choice, by weight, among the available backends.
    ///
    /// At least two backends; every weight is above 0, and the sum of the weights fits a `u32`.
    RandomAvailable(Vec<(B, u32)>),
}

/// A service or an endpoint that receives requests or connections.
///
/// Two equal backends share their balancer and connections, so fields without effect are left out, such as the queue of a
/// policy: the environment sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// The resource that configured the backend.
    pub meta: Arc<Meta>,
    /// The kind of dispatch.
    pub dispatcher: Dispatcher,
    /// The filter that refuses connections to the backend (opaque and TLS routes).
    pub filter: Option<TcpFilter>,
}

/// The dispatch of requests or connections to a backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatcher {
    /// Over the endpoints of a destination.
    Balance {
        /// The destination.
        destination: Destination,
        /// The settings of the load estimate.
        load: PeakEwma,
        /// The circuit breaker of its endpoints.
        breaker: Option<Arc<FailureAccrual>>,
    },
    /// To one endpoint.
    Forward(Arc<Endpoint>),
    /// To no endpoint, for this reason.
    Fail(String),
}

/// Load as an exponentially weighted moving average that follows peaks at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakEwma {
    /// The assumed latency of an endpoint that was not measured yet.
    pub default_rtt: Duration,
    /// The window of the average.
    pub decay: Duration,
    /// The penalty of endpoints that answer that they are overloaded or broken.
    pub penalty: Option<Arc<LoadPenalty>>,
}

/// A filter that refuses a connection before an endpoint is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpFilter {
    /// The traffic is forbidden.
    Forbidden,
    /// The route or backend is misconfigured, as the text explains.
    Invalid(String),
}

impl<B> Distribution<B> {
    /// The possible backends, in order.
    pub fn backends(&self) -> impl Iterator<Item = &B> {
        let (first, random): (&[B], &[(B, u32)]) = match self {
            Self::Empty | Self::Weightless => (&[], &[]),
            Self::FirstAvailable(backends) => (backends, &[]),
            Self::RandomAvailable(backends) => (&[], backends),
        };
        first
            .iter()
            .chain(random.iter().map(|(backend, _)| backend))
    }

    /// The possible backends, mutable.
    pub fn backends_mut(&mut self) -> impl Iterator<Item = &mut B> {
        let (first, random): (&mut [B], &mut [(B, u32)]) = match self {
            Self::Empty | Self::Weightless => (&mut [], &mut []),
            Self::FirstAvailable(backends) => (backends, &mut []),
            Self::RandomAvailable(backends) => (&mut [], backends),
        };
        first
            .iter_mut()
            .chain(random.iter_mut().map(|(backend, _)| backend))
    }

    /// One backend, always.
    pub fn only(backend: B) -> Self {
        Self::FirstAvailable(vec![backend])
    }

    /// The same distribution, over other backends.
    pub fn map<C>(self, mut map: impl FnMut(B) -> C) -> Distribution<C> {
        match self {
            Self::Empty => Distribution::Empty,
            Self::Weightless => Distribution::Weightless,
            Self::FirstAvailable(backends) => {
                Distribution::FirstAvailable(backends.into_iter().map(map).collect())
            }
            Self::RandomAvailable(backends) => {
                let backends = backends.into_iter();
                let mapped = backends.map(|(backend, weight)| (map(backend), weight));
                Distribution::RandomAvailable(mapped.collect())
            }
        }
    }
}

impl Default for PeakEwma {
    /// The settings for profiles, which do not carry any.
    fn default() -> Self {
        Self {
            default_rtt: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            penalty: None,
        }
    }
}
