use super::*;
use linkerd_api_proto::destination::{
    AuthorityOverride, Http2ClientParams, http2_client_params, protocol_hint::OpaqueTransport,
    tls_identity,
};
use std::collections::HashMap;

fn wire() -> WeightedAddr {
    WeightedAddr {
        addr: Some(SocketAddr::from(([10, 0, 0, 1], 8080)).into()),
        weight: 10_000,
        ..Default::default()
    }
}

fn converted(wire: WeightedAddr) -> Converted {
    endpoint(wire, &SetLabels::default()).unwrap()
}

#[test]
fn labels_of_the_endpoint_override_those_of_the_set() {
    let set = [("zone", "a"), ("ns", "default")];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let set: SetLabels = set.into_iter().collect();
    let mut wire = wire();
    wire.metric_labels = HashMap::from([
        ("zone".into(), "b".into()),
        ("zone_locality".into(), "LOCAL".into()),
    ]);
    let Converted { endpoint, .. } = endpoint(wire, &set).unwrap();
    let labels: Vec<_> = endpoint.labels.iter().collect();
    assert_eq!(
        labels,
        [("ns", "default"), ("zone", "b"), ("zone_locality", "LOCAL")]
    );
    assert_eq!(endpoint.zone_locality, ZoneLocality::Local);
}

#[test]
fn what_cannot_be_used_is_refused() {
    let refused = |wire| endpoint(wire, &SetLabels::default()).unwrap_err();
    let addr = SocketAddr::from(([10, 0, 0, 1], 8080));
    assert_eq!(refused(WeightedAddr::default()), InvalidEndpoint::NoAddress);
    let no_ip = net::TcpAddress { ip: None, port: 1 };
    assert_eq!(
        refused(WeightedAddr {
            addr: Some(no_ip),
            ..wire()
        }),
        InvalidEndpoint::NoIp
    );
    for port in [0, 65_536, u32::MAX] {
        let mut wire = wire();
        wire.addr.as_mut().unwrap().port = port;
        assert_eq!(refused(wire), InvalidEndpoint::Port(port));
    }
    assert_eq!(
        refused(WeightedAddr {
            weight: u32::MAX,
            ..wire()
        }),
        InvalidEndpoint::Weight {
            addr,
            weight: u32::MAX
        }
    );
    let bad = AuthorityOverride {
        authority_override: "no authority".into(),
    };
    assert!(matches!(
        refused(WeightedAddr {
            authority_override: Some(bad),
            ..wire()
        }),
        InvalidEndpoint::Authority { .. }
    ));
}

#[test]
fn a_uri_identity_needs_a_server_name() {
    let uri = tls_identity::UriLikeIdentity {
        uri: "spiffe://root/ns/sa".into(),
    };
    let mut wire = wire();
    wire.tls_identity = Some(TlsIdentity {
        strategy: Some(tls_identity::Strategy::UriLikeIdentity(uri)),
        server_name: None,
    });
    let without = converted(wire.clone());
    assert_eq!(without.endpoint.tls, None);
    assert_eq!(without.ignored, ["TLS identity"]);

    let name = tls_identity::DnsLikeIdentity {
        name: "web.default".into(),
    };
    wire.tls_identity.as_mut().unwrap().server_name = Some(name);
    let tls = ServerTls {
        identity: "spiffe://root/ns/sa".parse().unwrap(),
        server_name: "web.default".to_owned().try_into().unwrap(),
    };
    assert_eq!(converted(wire).endpoint.tls, Some(Box::new(tls)));
}

#[test]
fn the_opaque_transport_port_has_its_range() {
    for (port, accepted) in [(0, None), (4143, NonZeroU16::new(4143)), (65_535, None)] {
        let mut wire = wire();
        wire.protocol_hint = Some(proto::ProtocolHint {
            opaque_transport: Some(OpaqueTransport { inbound_port: port }),
            protocol: None,
        });
        let Converted { endpoint, .. } = converted(wire);
        assert_eq!(endpoint.opaque_transport_port, accepted, "port {port}");
    }
}

#[test]
fn http2_settings_stay_within_what_the_library_accepts() {
    let mut wire = wire();
    wire.http2 = Some(Http2ClientParams {
        flow_control: Some(http2_client_params::FlowControl {
            initial_connection_window_size: u32::MAX,
            initial_stream_window_size: 1,
            adaptive_flow_control: false,
        }),
        keep_alive: None,
        internals: Some(http2_client_params::Internals {
            max_concurrent_reset_streams: 7,
            max_frame_size: 1,
            max_send_buf_size: 0,
        }),
    });
    let converted = converted(wire);
    let expected = Http2Settings {
        max_concurrent_reset_streams: Some(7),
        ..Default::default()
    };
    assert_eq!(converted.endpoint.http2, Some(Box::new(expected)));
    assert_eq!(converted.ignored, ["HTTP/2 windows", "HTTP/2 frame size"]);
}
