//! The parts that all stages of a worker's inbound side share.

use super::{
    handshakes::Handshakes, peers::Peers, policy::PolicyContext, profiles::InboundProfiles,
    server_names::ServerNames,
};
use crate::{
    config::Config,
    failures::FailureLog,
    identity::MeshIdentity,
    metrics::{Families, target_labels},
    observers::Observers,
    server::InFlightLimit,
};
use linkerd_proxy_core::{
    http::{HalfSent, ServerSettings, client::Http1Pools},
    metrics::Labels,
    transport::{ClientInfo, Dialer, Pipes},
};
use std::{net::SocketAddr, rc::Rc, sync::Arc};

/// One worker's view of the proxy.
#[derive(Debug)]
pub struct Context {
    /// The configuration.
    pub config: Arc<Config>,
    /// Metric families.
    pub families: Families,
    /// Policies of ports.
    pub policies: Rc<PolicyContext>,
    /// Profiles of the services that requests are for.
    pub profiles: InboundProfiles,
    /// Dials applications.
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
    /// TLS handshakes that have begun and not ended.
    pub handshakes: Handshakes,
    /// Labels of server names that clients choose.
    pub server_names: ServerNames,
    /// Clients with a certificate, and the trust in it.
    pub peers: Peers,
    /// The last failures of the worker; both directions share them.
    pub failures: Rc<FailureLog>,
    /// Bounds and upkeep of this side's HTTP/1 pools.
    pub http1: Http1Pools,
}

impl Context {
    /// Counts a connection to `destination` that ended with an error.
    pub fn count_tcp_error(&self, destination: SocketAddr, error: &'static str) {
        let labels = target_labels(Labels::new().with("error", error), destination);
        self.families.inbound.tcp_errors.get(labels).incr();
    }

    /// Settings of the servers for a peer.
    pub fn server_settings(&self, client: &ClientInfo) -> ServerSettings {
        ServerSettings {
            header_timeout: self.config.header_timeout,
            http2: self.config.inbound.http2_server.clone(),
            half_sent: self.half_sent.of(client.addr.ip()),
        }
    }
}
