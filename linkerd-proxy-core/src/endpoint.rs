//! An endpoint: its address and its metadata, such as protocol, identity and labels.
//!
//! Endpoints come from endpoint sets, from profiles, and from policies' forwarding backends; balancers and the endpoint
//! stacks use them.

mod failure_accrual;
mod labels;
mod load_penalty;
mod status;
mod unready;

pub use failure_accrual::{FailureAccrual, SuccessRate};
pub use labels::{EndpointLabels, SetLabels, bounded_label};
pub use load_penalty::LoadPenalty;
pub use status::{Capacity, Ejection, EndpointState, EndpointStatus, Outage};
pub use unready::{EndpointQueue, Unready, UnreadyEndpoint};

use crate::{http::Http2Settings, tls::Identity};
use rustls::pki_types::DnsName;
use std::{net::SocketAddr, num::NonZeroU16};

/// An endpoint and its metadata.
///
/// Equality is over all fields: two equal endpoints can share their connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of its listener.
    pub addr: SocketAddr,
    /// The endpoint's share of the load, relative to the others of its set. The control plane usually sends 10,000.
    pub weight: u32,
    /// Labels for metrics, sorted by key; the endpoint's labels override those of its set.
    pub labels: EndpointLabels,
    /// The protocols of the proxy at the endpoint.
    pub protocol_hint: ProtocolHint,
    /// The peer proxy's port for connections that begin with a transport header.
    pub opaque_transport_port: Option<NonZeroU16>,
    /// The identity to verify, if the endpoint is meshed. Boxed, as the fields below: an endpoint without them takes less memory.
    pub tls: Option<Box<ServerTls>>,
    /// The authority that replaces that of requests to this endpoint.
    pub authority_override: Option<Box<http::uri::Authority>>,
    /// HTTP/2 settings that override those of the environment, field by field.
    pub http2: Option<Box<Http2Settings>>,
    /// Whether the endpoint is in the zone of this proxy.
    pub zone_locality: ZoneLocality,
}

/// The protocols that the proxy at an endpoint accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProtocolHint {
    /// The protocols are unknown.
    #[default]
    Unknown,
    /// HTTP/1 may be carried over HTTP/2.
    H2,
    /// Everything is treated as opaque bytes.
    Opaque,
}

/// How the TLS server at an endpoint is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerTls {
    /// The identity that the certificate of the peer must have.
    pub identity: Identity,
    /// The server name (SNI) of the handshake.
    pub server_name: DnsName<'static>,
}

/// Whether an endpoint is in the zone of this proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ZoneLocality {
    /// The zone is unknown.
    #[default]
    Unknown,
    /// In the same zone.
    Local,
    /// In another zone.
    Remote,
}

impl Endpoint {
    /// An endpoint with only an address known.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            weight: 1,
            labels: EndpointLabels::default(),
            protocol_hint: ProtocolHint::Unknown,
            opaque_transport_port: None,
            tls: None,
            authority_override: None,
            http2: None,
            zone_locality: ZoneLocality::Unknown,
        }
    }
}
