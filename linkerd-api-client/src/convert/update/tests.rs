use super::*;
use linkerd_api_proto::{
    destination::{
        AddrSet, AuthorityOverride, NoEndpoints, TlsIdentity, WeightedAddr, WeightedAddrSet,
    },
    net,
};
use proptest::prelude::*;
use std::net::SocketAddr;

fn weighted(last: u8) -> WeightedAddr {
    WeightedAddr {
        addr: Some(addr(last).into()),
        weight: 1,
        ..Default::default()
    }
}

fn addr(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 8080).into()
}

fn converted(update: update::Update) -> EndpointUpdate {
    endpoint_update(Update {
        update: Some(update),
    })
}

#[test]
fn an_invalid_endpoint_is_left_out_and_reported() {
    let mut no_port = weighted(1);
    no_port.addr.as_mut().unwrap().port = 0;
    let mut no_identity = weighted(2);
    no_identity.tls_identity = Some(TlsIdentity::default());
    let update = converted(update::Update::Add(WeightedAddrSet {
        addrs: vec![no_port, no_identity],
        ..Default::default()
    }));
    let Some(EndpointSetChange::Add(endpoints)) = update.change else {
        panic!("must add: {update:?}");
    };
    let added: Vec<_> = endpoints.iter().map(|endpoint| endpoint.addr).collect();
    assert_eq!(added, [addr(2)]);
    let ignored: Vec<_> = update.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(
        ignored,
        [
            "an endpoint's port (0) is not between 1 and 65535",
            "the TLS identity of 10.0.0.2:8080 is invalid"
        ]
    );
}

#[test]
fn removals_and_resets() {
    let removed = converted(update::Update::Remove(AddrSet {
        addrs: vec![addr(1).into(), net::TcpAddress::default()],
    }));
    assert_eq!(removed.ignored.len(), 1);
    let expected = EndpointSetChange::Remove(vec![addr(1)]);
    assert_eq!(removed.change, Some(expected));
    let none = converted(update::Update::NoEndpoints(NoEndpoints { exists: true }));
    let expected = EndpointSetChange::Clear { exists: true };
    assert_eq!(none.change, Some(expected));
    assert_eq!(
        endpoint_update(Update::default()),
        EndpointUpdate::default()
    );
}

proptest! {
    /// No message makes the conversion panic, and each converted endpoint can be used.
    #[test]
    fn any_message_is_converted(update in any_update()) {
        match endpoint_update(update).change {
            None | Some(EndpointSetChange::Clear { .. }) => {}
            Some(EndpointSetChange::Add(endpoints)) => {
                prop_assert!(!endpoints.is_empty());
                prop_assert!(endpoints.iter().all(|endpoint| endpoint.addr.port() > 0));
            }
            Some(EndpointSetChange::Remove(addrs)) => prop_assert!(!addrs.is_empty()),
        }
    }

    #[test]
    fn no_bytes_make_the_conversion_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(update) = <Update as prost::Message>::decode(&bytes[..]) {
            let _ = endpoint_update(update);
        }
    }
}

fn tcp_address() -> impl Strategy<Value = Option<net::TcpAddress>> {
    let ip = prop_oneof![
        Just(None),
        Just(Some(net::IpAddress { ip: None })),
        any::<[u8; 4]>().prop_map(|ip| Some(std::net::IpAddr::from(ip).into())),
        any::<[u8; 16]>().prop_map(|ip| Some(std::net::IpAddr::from(ip).into())),
    ];
    let port = prop_oneof![Just(0), 1u32..65536, any::<u32>()];
    proptest::option::of((ip, port).prop_map(|(ip, port)| net::TcpAddress { ip, port }))
}

fn any_update() -> impl Strategy<Value = Update> {
    let weighted = (
        tcp_address(),
        prop_oneof![0u32..3, any::<u32>()],
        any::<Option<String>>(),
    )
        .prop_map(|(addr, weight, authority)| WeightedAddr {
            addr,
            weight,
            authority_override: authority
                .map(|authority_override| AuthorityOverride { authority_override }),
            ..Default::default()
        });
    let add = proptest::collection::vec(weighted, 0..6).prop_map(|addrs| {
        update::Update::Add(WeightedAddrSet {
            addrs,
            ..Default::default()
        })
    });
    let remove = proptest::collection::vec(tcp_address(), 0..3).prop_map(|addrs| {
        update::Update::Remove(AddrSet {
            addrs: addrs.into_iter().flatten().collect(),
        })
    });
    let none = any::<bool>().prop_map(|exists| update::Update::NoEndpoints(NoEndpoints { exists }));
    proptest::option::of(prop_oneof![add, remove, none]).prop_map(|update| Update { update })
}
