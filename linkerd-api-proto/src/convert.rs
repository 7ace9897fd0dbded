//! Conversions shared by discovery and policy: from wire messages to plain types of the standard library.
//!
//! An endpoint arrives in endpoint sets, in profiles, and in policies' forwarding backends. The rules of validity are
//! here, once; only the last step, into the proxy's own endpoint type, is made by either crate, because this one does
//! not depend on the proxy.

use crate::{
    destination::{Http2ClientParams, ProtocolHint, TlsIdentity, WeightedAddr, protocol_hint},
    net,
};
use http::uri::Authority;
use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    time::Duration,
};

/// An endpoint in plain types. It cannot make a connection panic.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointParts {
    /// Its address; the port is not 0.
    pub addr: SocketAddr,
    /// Its share of the load, at most [`MAX_WEIGHT`].
    pub weight: u32,
    /// The labels of its set, overridden by its own.
    pub labels: BTreeMap<String, String>,
    /// Protocols that the peer proxy accepts.
    pub hint: Hint,
    /// The peer proxy's port for transport headers.
    pub opaque_transport_port: Option<NonZeroU16>,
    /// The identity to verify and the server name to ask for.
    pub tls: Option<(String, String)>,
    /// The authority of requests to it.
    pub authority_override: Option<Authority>,
    /// HTTP/2 settings.
    pub http2: Http2Parts,
    /// Whether it is in the same zone, if known.
    pub local_zone: Option<bool>,
    /// Invalid parts of the message that were ignored.
    pub left_out: Vec<&'static str>,
}

/// Protocols that a peer proxy accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Unknown.
    #[default]
    Unknown,
    /// HTTP/1 over HTTP/2.
    H2,
    /// Opaque bytes.
    Opaque,
}

/// HTTP/2 settings of an endpoint, within the limits of the HTTP/2 library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2Parts {
    /// Windows follow the measured bandwidth-delay product.
    pub adaptive: bool,
    /// Windows of a stream and of the connection, in bytes.
    pub windows: Option<(u32, u32)>,
    /// Interval, timeout, and whether idle connections are probed.
    pub keep_alive: Option<(Duration, Duration, bool)>,
    /// Locally reset streams that are remembered.
    pub max_concurrent_reset_streams: Option<u32>,
    /// The largest frame, in bytes.
    pub max_frame_size: Option<u32>,
    /// Bytes buffered for each stream.
    pub max_send_buf_size: Option<u32>,
}

/// An endpoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// It has no address to connect to.
    #[error("an endpoint has no address")]
    NoAddress,
    /// The address has no IP.
    #[error("an endpoint's address has no IP")]
    NoIp,
    /// No server can listen on such a port.
    #[error("an endpoint's port ({0}) is not between 1 and 65535")]
    Port(u32),
    /// Such a weight would starve every other endpoint.
    #[error("the weight of {addr} ({weight}) is above {MAX_WEIGHT}")]
    Weight {
        /// The endpoint.
        addr: SocketAddr,
        /// Its weight.
        weight: u32,
    },
    /// Requests would go out under a name that the peer does not serve.
    #[error("the authority override of {addr} ({authority:?}) is no authority")]
    Authority {
        /// The endpoint.
        addr: SocketAddr,
        /// The given authority.
        authority: String,
    },
}

/// The largest accepted weight: a thousand times the control plane's.
pub const MAX_WEIGHT: u32 = 10_000_000;

/// The valid parts of an endpoint in a set with the labels `set_labels`.
pub fn endpoint(
    wire: WeightedAddr,
    set_labels: &HashMap<String, String>,
) -> Result<EndpointParts, InvalidEndpoint> {
    let addr = socket_addr(wire.addr.ok_or(InvalidEndpoint::NoAddress)?)?;
    if wire.weight > MAX_WEIGHT {
        let weight = wire.weight;
        return Err(InvalidEndpoint::Weight { addr, weight });
    }
    let authority_override = match wire.authority_override {
        Some(wire) if !wire.authority_override.is_empty() => {
            let authority = wire.authority_override;
            Some(
                authority
                    .parse()
                    .map_err(|_| InvalidEndpoint::Authority { addr, authority })?,
            )
        }
        _ => None,
    };
    let local_zone = match wire.metric_labels.get("zone_locality") {
        Some(zone) if zone.eq_ignore_ascii_case("local") => Some(true),
        Some(zone) if zone.eq_ignore_ascii_case("remote") => Some(false),
        _ => None,
    };
    let mut left_out = Vec::new();
    let (hint, opaque_transport_port) = hint(wire.protocol_hint, &mut left_out);
    Ok(EndpointParts {
        addr,
        weight: wire.weight,
        labels: set_labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .chain(wire.metric_labels)
            .collect(),
        hint,
        opaque_transport_port,
        tls: wire.tls_identity.and_then(|id| tls(id, &mut left_out)),
        authority_override,
        http2: wire
            .http2
            .map(|params| http2(params, &mut left_out))
            .unwrap_or_default(),
        local_zone,
        left_out,
    })
}

/// A socket address with an IP and a port that is not 0.
pub fn socket_addr(wire: net::TcpAddress) -> Result<SocketAddr, InvalidEndpoint> {
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

/// A duration that is not negative. `None` if it is, or if its nanoseconds exceed a second.
pub fn duration(wire: &prost_types::Duration) -> Option<Duration> {
    let secs = u64::try_from(wire.seconds).ok()?;
    let nanos = u32::try_from(wire.nanos).ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

/// A `name:port`, with the name in lower case and without its trailing dot.
pub fn name_port(text: &str) -> Option<(String, u16)> {
    let (name, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let name = name.strip_suffix('.').unwrap_or(name);
    let plausible = name.split('.').all(|label| !label.is_empty())
        && name.len() <= 253
        && name.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'[' | b']')
        })
        && (name.starts_with('[') == name.contains(':'));
    plausible.then(|| (name.to_ascii_lowercase(), port))
}

fn hint(
    wire: Option<ProtocolHint>,
    left_out: &mut Vec<&'static str>,
) -> (Hint, Option<NonZeroU16>) {
    let Some(wire) = wire else {
        return (Hint::Unknown, None);
    };
    let hint = match wire.protocol {
        Some(protocol_hint::Protocol::H2(_)) => Hint::H2,
        Some(protocol_hint::Protocol::Opaque(_)) => Hint::Opaque,
        None => Hint::Unknown,
    };
    let port = wire.opaque_transport.and_then(|transport| {
        // 65535 is rejected too, as by the incumbent.
        let port = u16::try_from(transport.inbound_port)
            .ok()
            .filter(|port| *port != u16::MAX)
            .and_then(NonZeroU16::new);
        if port.is_none() {
            left_out.push("opaque transport port");
        }
        port
    });
    (hint, port)
}

fn tls(wire: TlsIdentity, left_out: &mut Vec<&'static str>) -> Option<(String, String)> {
    use crate::destination::tls_identity::Strategy;
    let server_name = wire
        .server_name
        .map(|server_name| server_name.name)
        .filter(|name| !name.is_empty());
    let tls = match wire.strategy {
        Some(Strategy::DnsLikeIdentity(id)) if !id.name.is_empty() => {
            let server_name = server_name.unwrap_or_else(|| id.name.clone());
            Some((id.name, server_name))
        }
        // A URI is no server name, so both are needed.
        Some(Strategy::UriLikeIdentity(id)) if id.uri.contains("://") => {
            server_name.map(|server_name| (id.uri, server_name))
        }
        _ => None,
    };
    if tls.is_none() {
        left_out.push("TLS identity");
    }
    tls
}

fn http2(wire: Http2ClientParams, left_out: &mut Vec<&'static str>) -> Http2Parts {
    // HTTP/2 windows have 31 bits, and the library panics on larger ones.
    const MAX_WINDOW: u32 = 0x7fff_ffff;
    let mut parts = Http2Parts::default();
    if let Some(flow) = wire.flow_control {
        let (stream, connection) = (
            flow.initial_stream_window_size,
            flow.initial_connection_window_size,
        );
        parts.adaptive = flow.adaptive_flow_control;
        if !parts.adaptive && stream > 0 && connection > 0 {
            if stream <= MAX_WINDOW && connection <= MAX_WINDOW {
                parts.windows = Some((stream, connection));
            } else {
                left_out.push("HTTP/2 windows");
            }
        }
    }
    if let Some(keep_alive) = wire.keep_alive {
        let interval = keep_alive.interval.as_ref().and_then(duration);
        let timeout = keep_alive.timeout.as_ref().and_then(duration);
        match (interval, timeout) {
            (Some(interval), Some(timeout)) if !interval.is_zero() && !timeout.is_zero() => {
                parts.keep_alive = Some((interval, timeout, keep_alive.while_idle));
            }
            _ => left_out.push("HTTP/2 keep-alive"),
        }
    }
    if let Some(internals) = wire.internals {
        let positive = |value: u32| (value > 0).then_some(value);
        parts.max_concurrent_reset_streams = positive(internals.max_concurrent_reset_streams);
        parts.max_send_buf_size = positive(internals.max_send_buf_size);
        // RFC 9113, section 6.5.2.
        match internals.max_frame_size {
            0 => {}
            size @ 16_384..=16_777_215 => parts.max_frame_size = Some(size),
            _ => left_out.push("HTTP/2 frame size"),
        }
    }
    parts
}

#[cfg(test)]
mod tests;
