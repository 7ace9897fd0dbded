//! Policies for targets without one.

use crate::{
    backend::{Backend, Dispatcher, Distribution, PeakEwma},
    meta::Meta,
    policy::{ClientPolicy, OpaqueRoute, Protocol},
    route::{HttpBackend, RouteRule, RouteTable},
};
use linkerd_proxy_core::{Destination, endpoint::Endpoint};
use std::{sync::Arc, time::Duration};

/// The configuration of synthesized policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PolicyDefaults {
    pub(crate) detect_timeout: Duration,
    /// Whether a target without a policy is forwarded to itself, or to its profile's service.
    pub(crate) forward_unknown: bool,
}

impl PolicyDefaults {
    /// A policy that sends all traffic to one endpoint.
    pub(crate) fn forward(&self, name: &str, endpoint: Arc<Endpoint>) -> ClientPolicy {
        self.everything_to(name, Dispatcher::Forward(endpoint))
    }

    /// A policy that balances all traffic over one destination.
    pub(crate) fn balance(&self, name: &str, destination: Destination) -> ClientPolicy {
        let load = PeakEwma::default();
        let balance = Dispatcher::Balance {
            destination,
            load,
            breaker: None,
        };
        self.everything_to(name, balance)
    }

    fn everything_to(&self, name: &str, dispatcher: Dispatcher) -> ClientPolicy {
        let meta = Arc::new(Meta::new_default(name));
        let distribution = Distribution::only(Backend {
            meta: meta.clone(),
            dispatcher,
            filter: None,
        });
        let http_distribution = distribution.clone().map(HttpBackend::from);
        let rule = RouteRule::for_all(meta.clone(), http_distribution);
        let http = Arc::new(RouteTable::new(vec![rule]));
        ClientPolicy {
            parent: meta.clone(),
            protocol: Protocol::Detect {
                timeout: self.detect_timeout,
                http1: http.clone(),
                http2: http,
                opaque: Some(OpaqueRoute {
                    meta,
                    distribution,
                    filter: None,
                }),
            },
            invalid: None,
        }
    }
}
