use linkerd_api_proto::destination::{
    AuthorityOverride, ProtocolHint, TlsIdentity, WeightedAddr, protocol_hint,
    tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity},
};
use std::collections::HashMap;
use std::net::SocketAddr;

/// An endpoint and its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// The address.
    pub addr: SocketAddr,
    /// The weight on the wire; [`Endpoint::WEIGHT_ONE`] is the ordinary one.
    pub weight: u32,
    /// The endpoint's own metric labels.
    pub labels: HashMap<String, String>,
    /// Protocols that its proxy accepts, if it has one.
    pub hint: Option<protocol_hint::Protocol>,
    /// The port of its proxy for connections with a transport header.
    pub inbound_port: Option<u16>,
    /// The DNS-like name in its certificate; without it, connections are plaintext.
    pub identity: Option<String>,
    /// The server name of handshakes with it, if it differs from its identity.
    pub server_name: Option<String>,
    /// The authority of requests to it.
    pub authority_override: Option<String>,
}

impl Endpoint {
    /// The wire weight of an ordinary endpoint.
    pub const WEIGHT_ONE: u32 = 10_000;

    /// An endpoint of ordinary weight, without metadata.
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            weight: Self::WEIGHT_ONE,
            labels: HashMap::new(),
            hint: None,
            inbound_port: None,
            identity: None,
            server_name: None,
            authority_override: None,
        }
    }

    /// Sets the weight on the wire.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Adds a metric label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Hints that HTTP/1 requests may be carried over HTTP/2.
    #[must_use]
    pub fn h2(mut self) -> Self {
        self.hint = Some(protocol_hint::Protocol::H2(protocol_hint::H2 {}));
        self
    }

    /// Hints that the endpoint takes connections as opaque.
    #[must_use]
    pub fn opaque(mut self) -> Self {
        self.hint = Some(protocol_hint::Protocol::Opaque(protocol_hint::Opaque {}));
        self
    }

    /// Sets the port of the endpoint's proxy for connections with a transport header.
    #[must_use]
    pub fn inbound_port(mut self, port: u16) -> Self {
        self.inbound_port = Some(port);
        self
    }

    /// Sets the identity that the endpoint must prove: a DNS name, or a URI, which needs a server name besides.
    #[must_use]
    pub fn identity(mut self, name: impl Into<String>) -> Self {
        self.identity = Some(name.into());
        self
    }

    /// Sets the server name of handshakes with the endpoint.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets the authority of requests to the endpoint.
    #[must_use]
    pub fn authority_override(mut self, authority: impl Into<String>) -> Self {
        self.authority_override = Some(authority.into());
        self
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Self::new(addr)
    }
}

impl From<Endpoint> for WeightedAddr {
    fn from(endpoint: Endpoint) -> Self {
        let hint = endpoint.hint.is_some() || endpoint.inbound_port.is_some();
        Self {
            addr: Some(endpoint.addr.into()),
            weight: endpoint.weight,
            metric_labels: endpoint.labels,
            tls_identity: endpoint.identity.map(|name| TlsIdentity {
                server_name: Some(DnsLikeIdentity {
                    name: endpoint.server_name.unwrap_or_else(|| name.clone()),
                }),
                strategy: Some(match name.contains("://") {
                    true => Strategy::UriLikeIdentity(UriLikeIdentity { uri: name }),
                    false => Strategy::DnsLikeIdentity(DnsLikeIdentity { name }),
                }),
            }),
            protocol_hint: hint.then(|| ProtocolHint {
                opaque_transport: endpoint.inbound_port.map(|port| {
                    protocol_hint::OpaqueTransport {
                        inbound_port: port.into(),
                    }
                }),
                protocol: endpoint.hint,
            }),
            authority_override: endpoint
                .authority_override
                .map(|authority_override| AuthorityOverride { authority_override }),
            http2: None,
            resource_ref: None,
        }
    }
}
