//! The parts that all stages of a worker's outbound side share.

use super::transport_header::transport_header;
use crate::{
    config::Config,
    failures::FailureLog,
    identity::MeshIdentity,
    metrics::{EndpointLabels, Families},
    observers::Observers,
    server::{InFlightLimit, share},
};
use linkerd_balance::breaker::BreakerGroup;
use linkerd_discover::Discovery;
use linkerd_profiles::Policies;
use linkerd_proxy_core::{
    Destination,
    endpoint::{Endpoint, FailureAccrual, ZoneLocality},
    http::{HalfSent, QueueSettings, ServerSettings, client::Http1Pools},
    metrics::{LabelSet, Labels},
    tls::{MeshClient, SessionProtocol},
    transport::{Connect, Dialer, Pipes, TransferCost},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
    sync::Arc,
};

/// One worker's view of the proxy.
#[derive(Debug)]
pub struct Context {
    /// The configuration.
    pub config: Arc<Config>,
    /// Metric families.
    pub families: Families,
    /// Endpoint discovery.
    pub discovery: Discovery,
    /// Policies and profiles.
    pub policies: Policies,
    /// Dials endpoints.
    pub dialer: Arc<Dialer>,
    /// The identity of the proxy; `None`: nothing is encrypted.
    pub mesh: Option<MeshIdentity>,
    /// The number of workers, by which limits of the whole proxy are divided.
    pub workers: usize,
    /// Observers of requests; both directions of the worker share them.
    pub observers: Rc<Observers>,
    /// Requests in flight on this worker.
    pub in_flight: InFlightLimit,
    /// Pipes of relays; both directions of the worker share them.
    pub pipes: Rc<Pipes>,
    /// Requests whose heads are incomplete.
    pub half_sent: HalfSent,
    /// The last failures of the worker; both directions share them.
    pub failures: Rc<FailureLog>,
    /// Bounds and upkeep of this side's HTTP/1 pools.
    pub http1: Http1Pools,
    /// Transfer costs of this worker's endpoints.
    pub costs: Costs,
    /// The size of the request future of the last route that was built; 0 before the first.
    pub route_bytes: Cell<usize>,
    /// The size of the client's future for the last request; 0 before the first.
    pub client_bytes: Cell<usize>,
}

/// Transfer costs by zone locality. All endpoints of a locality share one handle: a scrape sums the handles of a series.
#[derive(Debug, Default)]
pub struct Costs([OnceCell<TransferCost>; 3]);

impl Context {
    /// Settings of the servers for applications.
    pub fn server_settings(&self) -> ServerSettings {
        ServerSettings {
            header_timeout: self.config.header_timeout,
            http2: self.config.outbound.http2_server.clone(),
            half_sent: self.half_sent.clone(),
        }
    }

    /// Whether the endpoint is in this pod.
    pub fn is_local(&self, endpoint: &Endpoint) -> bool {
        self.config.inbound.ips.contains(&endpoint.addr.ip())
    }

    /// Whether connections to the endpoint are encrypted.
    pub fn is_meshed(&self, endpoint: &Endpoint) -> bool {
        self.mesh.is_some() && endpoint.tls.is_some() && !self.is_local(endpoint)
    }

    /// A connector to an endpoint. `authority` is the discovered name, if any; `protocol` that of the session, if known.
    pub fn connect(
        &self,
        endpoint: &Arc<Endpoint>,
        authority: Option<&Arc<str>>,
        protocol: Option<SessionProtocol>,
    ) -> Connect {
        let tls = self.tls(endpoint, protocol);
        let mut addr = endpoint.addr;
        if let Some(port) = endpoint.opaque_transport_port.filter(|_| tls.is_some()) {
            addr.set_port(port.get());
        }
        let labels = LabelSet::new(EndpointLabels {
            is_transport: true,
            ..self.endpoint_labels(endpoint, authority)
        });
        Connect {
            addr,
            dialer: self.dialer.clone(),
            tls: tls.map(Arc::new),
            series: self
                .families
                .transport
                .series_with_cost(labels, Some(self.cost(endpoint))),
        }
    }

    /// TLS to an endpoint; `None` for an endpoint in this pod or without an identity.
    fn tls(&self, endpoint: &Endpoint, protocol: Option<SessionProtocol>) -> Option<MeshClient> {
        let mesh = self.mesh.as_ref().filter(|_| self.is_meshed(endpoint))?;
        let client = mesh.client(endpoint.tls.as_deref()?);
        Some(client.with_header(transport_header(endpoint, protocol)))
    }

    /// The labels of an endpoint's series. `authority` is the discovered name, if any.
    pub fn labels(&self, endpoint: &Arc<Endpoint>, authority: Option<&Arc<str>>) -> LabelSet {
        LabelSet::new(self.endpoint_labels(endpoint, authority))
    }

    fn endpoint_labels(
        &self,
        endpoint: &Arc<Endpoint>,
        authority: Option<&Arc<str>>,
    ) -> EndpointLabels {
        EndpointLabels {
            endpoint: endpoint.clone(),
            authority: authority.cloned(),
            is_local: self.is_local(endpoint),
            is_meshed: self.is_meshed(endpoint),
            is_transport: false,
        }
    }

    /// The transfer cost of an endpoint, by its zone.
    fn cost(&self, endpoint: &Endpoint) -> TransferCost {
        let (cost, locality) = match endpoint.zone_locality {
            ZoneLocality::Unknown => (&self.costs.0[0], "Unknown"),
            ZoneLocality::Local => (&self.costs.0[1], "Local"),
            ZoneLocality::Remote => (&self.costs.0[2], "Remote"),
        };
        let series = |op| {
            let labels = Labels::new().with("op", op).with("zone_locality", locality);
            self.families.outbound.transfer_cost.get(labels)
        };
        let new = || TransferCost {
            sent: series("Send"),
            received: series("Recv"),
        };
        cost.get_or_init(new).clone()
    }

    /// A worker's share of a queue.
    pub fn queue(&self, queue: QueueSettings) -> QueueSettings {
        QueueSettings {
            capacity: share(queue.capacity, self.workers),
            ..queue
        }
    }

    /// The circuit breakers of a balancer.
    pub fn breakers(&self, backend: &Destination, rules: &FailureAccrual) -> BreakerGroup {
        BreakerGroup::new(backend.as_str(), *rules, self.rng())
    }

    /// A generator for one service's choices.
    pub fn rng(&self) -> SmallRng {
        SmallRng::from_rng(&mut rand::rng())
    }
}
