//! The transport header of connections to an endpoint: the port and name to which the endpoint's proxy forwards.

use linkerd_proxy_core::{
    endpoint::{Endpoint, ProtocolHint},
    tls::{Identity, SessionProtocol, TransportHeader},
};
use std::num::NonZeroU16;

/// The header for an endpoint with an opaque transport port or behind a gateway (an authority override); else `None`.
pub(super) fn transport_header(
    endpoint: &Endpoint,
    protocol: Option<SessionProtocol>,
) -> Option<TransportHeader> {
    let authority = endpoint.authority_override.as_deref();
    if endpoint.opaque_transport_port.is_none() && authority.is_none() {
        return None;
    }
    let named = authority.and_then(|authority| {
        let port = NonZeroU16::new(authority.port_u16()?)?;
        let name = match authority.host().parse() {
            Ok(Identity::Dns(name)) => Some(name),
            _ => None,
        };
        Some((port, name))
    });
    let own_port = NonZeroU16::new(endpoint.addr.port())?;
    let (port, name) = named.unwrap_or((own_port, None));
    Some(TransportHeader {
        port,
        name,
        protocol: protocol.filter(|_| endpoint.protocol_hint != ProtocolHint::Opaque),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint {
            opaque_transport_port: NonZeroU16::new(4143),
            ..Endpoint::new(([10, 0, 0, 1], 8080).into())
        }
    }

    fn header(endpoint: &Endpoint) -> Option<(u16, Option<String>, Option<SessionProtocol>)> {
        let header = transport_header(endpoint, Some(SessionProtocol::Http2))?;
        let name = header.name.map(|name| name.to_string());
        Some((header.port.get(), name, header.protocol))
    }

    #[test]
    fn names_the_port_of_the_endpoint_or_the_gateways_target() {
        let http2 = Some(SessionProtocol::Http2);
        let plain = Endpoint::new(([10, 0, 0, 1], 8080).into());
        assert_eq!(header(&plain), None);
        assert_eq!(header(&endpoint()), Some((8080, None, http2)));
        let opaque = Endpoint {
            protocol_hint: ProtocolHint::Opaque,
            ..endpoint()
        };
        assert_eq!(header(&opaque), Some((8080, None, None)));
        for (authority, port, name) in [
            ("web.test:81", 81, Some("web.test")),
            ("web.test", 8080, None),
            ("10.0.0.2:81", 81, None),
        ] {
            let overridden = Endpoint {
                authority_override: Some(Box::new(authority.parse().unwrap())),
                ..endpoint()
            };
            let expected = (port, name.map(str::to_owned), http2);
            assert_eq!(header(&overridden), Some(expected), "{authority}");
        }
    }
}
