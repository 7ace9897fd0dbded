//! From wire messages to endpoints. Nothing past this file knows protobuf.

use linkerd_api_proto::{
    convert::{self as wire, EndpointParts, Hint, InvalidEndpoint},
    destination::{Update, update},
};
use linkerd_proxy_core::{
    endpoint::{Endpoint, ProtocolHint, ServerTls, ZoneLocality},
    http::{FlowControl, Http2Settings, KeepAlive},
    subscription::{Code, Status},
    yielding::with_yields,
};
use std::net::SocketAddr;

/// An update, in our own words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Converted {
    /// What to do. `None`: nothing in the update was usable.
    pub(crate) change: Option<Change>,
    /// What was left out, and why.
    pub(crate) nonsense: Vec<Nonsense>,
}

/// A change of an endpoint set. The lists are never empty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// These endpoints exist.
    Add(Vec<Endpoint>),
    /// These do not.
    Remove(Vec<SocketAddr>),
    /// None does.
    Clear {
        /// Whether the service does.
        exists: bool,
    },
}

/// Something that makes no sense.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Nonsense {
    /// An endpoint was left out.
    Endpoint(InvalidEndpoint),
    /// Part of an endpoint's metadata was.
    Part(SocketAddr, &'static str),
}

impl From<Update> for Converted {
    fn from(update: Update) -> Self {
        let mut nonsense = Vec::new();
        let change = match update.update {
            Some(update::Update::Add(set)) => {
                let mut endpoints = Vec::with_capacity(set.addrs.len());
                for addr in with_yields(set.addrs) {
                    match wire::endpoint(addr, &set.metric_labels) {
                        Ok(parts) => {
                            let addr = parts.addr;
                            nonsense.extend(
                                parts.left_out.iter().map(|part| Nonsense::Part(addr, part)),
                            );
                            endpoints.push(endpoint(parts));
                        }
                        Err(error) => nonsense.push(Nonsense::Endpoint(error)),
                    }
                }
                (!endpoints.is_empty()).then_some(Change::Add(endpoints))
            }
            Some(update::Update::Remove(set)) => {
                let mut addrs = Vec::with_capacity(set.addrs.len());
                for addr in with_yields(set.addrs) {
                    match wire::socket_addr(addr) {
                        Ok(addr) => addrs.push(addr),
                        Err(error) => nonsense.push(Nonsense::Endpoint(error)),
                    }
                }
                (!addrs.is_empty()).then_some(Change::Remove(addrs))
            }
            Some(update::Update::NoEndpoints(none)) => Some(Change::Clear {
                exists: none.exists,
            }),
            None => None,
        };
        Self { change, nonsense }
    }
}

/// The last step of the conversion, which `linkerd-profiles` makes alike.
fn endpoint(parts: EndpointParts) -> Endpoint {
    let flow_control = match (parts.http2.adaptive, parts.http2.windows) {
        (true, _) => Some(FlowControl::Adaptive),
        (false, Some((stream, connection))) => Some(FlowControl::Fixed { stream, connection }),
        (false, None) => None,
    };
    let keep_alive = parts
        .http2
        .keep_alive
        .map(|(interval, timeout, while_idle)| KeepAlive {
            interval,
            timeout,
            while_idle,
        });
    let http2 = Http2Settings {
        flow_control,
        keep_alive,
        max_frame_size: parts.http2.max_frame_size,
        max_concurrent_reset_streams: parts.http2.max_concurrent_reset_streams.map(|n| n as usize),
        max_send_buf_size: parts.http2.max_send_buf_size.map(|n| n as usize),
        ..Http2Settings::default()
    };
    Endpoint {
        addr: parts.addr,
        weight: parts.weight,
        labels: parts.labels.into_iter().collect(),
        protocol_hint: match parts.hint {
            Hint::Unknown => ProtocolHint::Unknown,
            Hint::H2 => ProtocolHint::H2,
            Hint::Opaque => ProtocolHint::Opaque,
        },
        opaque_transport_port: parts.opaque_transport_port,
        tls: parts.tls.map(|(identity, server_name)| {
            Box::new(ServerTls {
                identity,
                server_name,
            })
        }),
        authority_override: parts.authority_override.map(Box::new),
        http2: http2.boxed(),
        zone_locality: match parts.local_zone {
            None => ZoneLocality::Unknown,
            Some(true) => ZoneLocality::Local,
            Some(false) => ZoneLocality::Remote,
        },
    }
}

pub(crate) fn status(status: &tonic::Status) -> Status {
    Status::new(Code::from(i32::from(status.code())), status.message())
}

impl std::fmt::Display for Nonsense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Endpoint(error) => error.fmt(f),
            Self::Part(addr, part) => write!(f, "the {part} of {addr} makes no sense"),
        }
    }
}
