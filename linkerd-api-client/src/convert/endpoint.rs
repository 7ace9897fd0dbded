//! An endpoint, wherever it occurs: in endpoint sets, in profiles, and in policies' forwarding backends.

use super::duration::duration;
use linkerd_api_proto::{
    destination::{self as proto, TlsIdentity, WeightedAddr},
    net,
};
use linkerd_proxy_core::{
    endpoint::{Endpoint, EndpointLabels, ProtocolHint, ServerTls, SetLabels, ZoneLocality},
    http::{FlowControl, Http2Settings, KeepAlive},
    tls::Identity,
};
use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
};

/// An endpoint with valid parts only: none can make a connection panic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Converted {
    pub(super) endpoint: Endpoint,
    /// Parts of the message that are invalid and were ignored.
    pub(super) ignored: Vec<&'static str>,
}

/// The reason why an endpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// Without an address no connection is possible.
    #[error("an endpoint has no address")]
    NoAddress,
    /// The address has no IP.
    #[error("an endpoint's address has no IP")]
    NoIp,
    /// No listener can have this port.
    #[error("an endpoint's port ({0}) is not between 1 and 65535")]
    Port(u32),
    /// The weight would starve all other endpoints.
    #[error("the weight of {addr} ({weight}) is above {MAX_WEIGHT}")]
    Weight {
        /// The endpoint.
        addr: SocketAddr,
        /// The weight of the endpoint.
        weight: u32,
    },
    /// The override is not an authority that the peer could serve.
    #[error("the authority override of {addr} ({authority:?}) is no authority")]
    Authority {
        /// The endpoint.
        addr: SocketAddr,
        /// The text that is not an authority.
        authority: String,
    },
}

/// The largest accepted weight: a thousand times the weight that the control plane sends.
const MAX_WEIGHT: u32 = 10_000_000;

/// Converts an endpoint that belongs to a set with the labels `set_labels`.
pub(super) fn endpoint(
    wire: WeightedAddr,
    set_labels: &SetLabels,
) -> Result<Converted, InvalidEndpoint> {
    let addr = socket_addr(wire.addr.ok_or(InvalidEndpoint::NoAddress)?)?;
    if wire.weight > MAX_WEIGHT {
        let weight = wire.weight;
        return Err(InvalidEndpoint::Weight { addr, weight });
    }
    let authority_override = match wire.authority_override {
        Some(wire) if !wire.authority_override.is_empty() => {
            let authority = wire.authority_override;
            let parsed = authority.parse().map(Box::new);
            Some(parsed.map_err(|_| InvalidEndpoint::Authority { addr, authority })?)
        }
        _ => None,
    };
    let zone_locality = match wire.metric_labels.get("zone_locality") {
        Some(zone) if zone.eq_ignore_ascii_case("local") => ZoneLocality::Local,
        Some(zone) if zone.eq_ignore_ascii_case("remote") => ZoneLocality::Remote,
        _ => ZoneLocality::Unknown,
    };
    let mut ignored = Vec::new();
    let (protocol_hint, opaque_transport_port) = hint(wire.protocol_hint, &mut ignored);
    let tls = wire.tls_identity.and_then(|id| tls(id, &mut ignored));
    let http2 = wire.http2.and_then(|params| http2(params, &mut ignored));
    let endpoint = Endpoint {
        addr,
        weight: wire.weight,
        labels: EndpointLabels::of_set(set_labels, wire.metric_labels),
        protocol_hint,
        opaque_transport_port,
        tls: tls.map(Box::new),
        authority_override,
        http2,
        zone_locality,
    };
    Ok(Converted { endpoint, ignored })
}

/// A socket address with an IP and a port that is not 0.
pub(super) fn socket_addr(wire: net::TcpAddress) -> Result<SocketAddr, InvalidEndpoint> {
    let ip = wire.ip.ok_or(InvalidEndpoint::NoIp)?;
    let ip = IpAddr::try_from(ip).map_err(|_| InvalidEndpoint::NoIp)?;
    if ip.is_unspecified() {
        // A connection to it would return to this host.
        return Err(InvalidEndpoint::NoIp);
    }
    match u16::try_from(wire.port) {
        Ok(port) if port > 0 => Ok(SocketAddr::new(ip, port)),
        _ => Err(InvalidEndpoint::Port(wire.port)),
    }
}

fn hint(
    wire: Option<proto::ProtocolHint>,
    ignored: &mut Vec<&'static str>,
) -> (ProtocolHint, Option<NonZeroU16>) {
    use proto::protocol_hint::Protocol;
    let Some(wire) = wire else {
        return (ProtocolHint::Unknown, None);
    };
    let hint = match wire.protocol {
        Some(Protocol::H2(_)) => ProtocolHint::H2,
        Some(Protocol::Opaque(_)) => ProtocolHint::Opaque,
        None => ProtocolHint::Unknown,
    };
    let port = wire.opaque_transport.and_then(|transport| {
        // 65535 is not accepted either, as before.
        let port = u16::try_from(transport.inbound_port)
            .ok()
            .filter(|port| *port != u16::MAX)
            .and_then(NonZeroU16::new);
        if port.is_none() {
            ignored.push("opaque transport port");
        }
        port
    });
    (hint, port)
}

fn tls(wire: TlsIdentity, ignored: &mut Vec<&'static str>) -> Option<ServerTls> {
    use proto::tls_identity::Strategy;
    let identity = match wire.strategy {
        Some(Strategy::DnsLikeIdentity(id)) => id.name.parse::<Identity>().ok(),
        Some(Strategy::UriLikeIdentity(id)) => id.uri.parse().ok(),
        None => None,
    };
    let named = wire.server_name.filter(|name| !name.name.is_empty());
    let tls = identity.and_then(|identity| {
        // A URI does not give the server name, so both are needed.
        let server_name = match (named, identity.dns_name()) {
            (Some(named), _) => named.name,
            (None, own) => own?.to_owned(),
        };
        Some(ServerTls {
            server_name: server_name.try_into().ok()?,
            identity,
        })
    });
    if tls.is_none() {
        ignored.push("TLS identity");
    }
    tls
}

/// HTTP/2 settings within what the HTTP/2 library accepts.
fn http2(
    wire: proto::Http2ClientParams,
    ignored: &mut Vec<&'static str>,
) -> Option<Box<Http2Settings>> {
    let mut settings = Http2Settings::default();
    if let Some(flow) = wire.flow_control {
        let (stream, connection) = (
            flow.initial_stream_window_size,
            flow.initial_connection_window_size,
        );
        if flow.adaptive_flow_control {
            settings.flow_control = Some(FlowControl::Adaptive);
        } else if stream > 0 && connection > 0 {
            if stream <= MAX_WINDOW && connection <= MAX_WINDOW {
                settings.flow_control = Some(FlowControl::Fixed { stream, connection });
            } else {
                ignored.push("HTTP/2 windows");
            }
        }
    }
    if let Some(keep_alive) = wire.keep_alive {
        let interval = keep_alive.interval.as_ref().and_then(duration);
        let timeout = keep_alive.timeout.as_ref().and_then(duration);
        match (interval, timeout) {
            (Some(interval), Some(timeout)) if !interval.is_zero() && !timeout.is_zero() => {
                settings.keep_alive = Some(KeepAlive {
                    interval,
                    timeout,
                    while_idle: keep_alive.while_idle,
                });
            }
            _ => ignored.push("HTTP/2 keep-alive"),
        }
    }
    if let Some(internals) = wire.internals {
        let positive = |value: u32| (value > 0).then_some(value as usize);
        settings.max_concurrent_reset_streams = positive(internals.max_concurrent_reset_streams);
        settings.max_send_buf_size = positive(internals.max_send_buf_size);
        // RFC 9113, section 6.5.2.
        match internals.max_frame_size {
            0 => {}
            size @ 16_384..=16_777_215 => settings.max_frame_size = Some(size),
            _ => ignored.push("HTTP/2 frame size"),
        }
    }
    settings.boxed()
}

/// HTTP/2 windows have 31 bits, and the library panics on larger ones.
const MAX_WINDOW: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests;
