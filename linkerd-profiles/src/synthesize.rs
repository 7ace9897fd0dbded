//! Policies for targets of which the control plane has none.

use crate::{
    backend::{Backend, Dispatcher, Distribution, PeakEwma},
    meta::Meta,
    policy::{ClientPolicy, OpaqueRoute, Protocol},
    route::{RouteRule, RouteTable},
};
use linkerd_proxy_core::{Destination, endpoint::Endpoint, http::QueueSettings};
use std::{sync::Arc, time::Duration};

/// What is configured here because no message says it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) queue: QueueSettings,
    pub(crate) detect_timeout: Duration,
    /// Whether a target without a policy is forwarded to itself, or to what its profile says.
    pub(crate) forward_unknown: bool,
}

impl Defaults {
    /// Everything goes to one endpoint.
    pub(crate) fn forward(&self, name: &str, endpoint: Arc<Endpoint>) -> ClientPolicy {
        self.everything_to(name, Dispatcher::Forward(endpoint))
    }

    /// Everything is balanced over one destination.
    pub(crate) fn balance(&self, name: &str, destination: Destination) -> ClientPolicy {
        let load = PeakEwma::default();
        self.everything_to(name, Dispatcher::Balance { destination, load })
    }

    fn everything_to(&self, name: &str, dispatcher: Dispatcher) -> ClientPolicy {
        let meta = Arc::new(Meta::new_default(name));
        let distribution = Distribution::only(Backend {
            meta: meta.clone(),
            queue: self.queue,
            dispatcher,
            filter: None,
        });
        let rule = RouteRule::for_all(meta.clone(), distribution.clone());
        let http = RouteTable { rules: vec![rule] };
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
            not_honoured: Vec::new(),
        }
    }
}
