use crate::inbound::{
    Authentication, Authorization, ClientIdentities, ClientNetwork, InboundHttp, InboundRoute,
    InboundRoutes, ServerPolicy, ServerProtocol, UnmetCondition,
};
use crate::{Distribution, Meta, RouteRule};
use ipnet::IpNet;
use linkerd_proxy_core::tls::{NoTlsReason, TlsStatus};
use proptest::{prelude::*, sample::select};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const INSIDE: &str = "10.1.2.3";
const EXCEPTED: &str = "10.9.0.1";
const OUTSIDE: &str = "192.0.2.1";

fn tls(name: &str) -> TlsStatus {
    match name {
        "plain" => TlsStatus::None(NoTlsReason::NoTlsFromRemote),
        "skipped" => TlsStatus::None(NoTlsReason::PortSkipped),
        "passthrough" => TlsStatus::Passthrough {
            server_name: "other.example".into(),
        },
        "anonymous" => TlsStatus::Meshed(None),
        identity => TlsStatus::Meshed(Some(identity.parse().unwrap())),
    }
}

const TLS: [&str; 8] = [
    "plain",
    "skipped",
    "passthrough",
    "anonymous",
    "web.shop.test",
    "db.shop.test",
    "web.other.test",
    "spiffe://test/web",
];

fn authentication(kind: &str) -> Authentication {
    let identities = |exact: &[&str], suffixes: &[&str]| {
        Authentication::Identities(ClientIdentities {
            exact: exact.iter().map(|name| (*name).into()).collect(),
            suffixes: suffixes.iter().map(|suffix| (*suffix).into()).collect(),
        })
    };
    match kind {
        "unauthenticated" => Authentication::Unauthenticated,
        "mesh TLS" => Authentication::MeshTls,
        "exact" => identities(&["web.shop.test", "spiffe://test/web"], &[]),
        "suffix" => identities(&[], &[".shop.test"]),
        "any" => Authentication::Identities(ClientIdentities::any()),
        "none" => identities(&[], &[]),
        other => panic!("{other}"),
    }
}

const KINDS: [&str; 6] = [
    "unauthenticated",
    "mesh TLS",
    "exact",
    "suffix",
    "any",
    "none",
];

fn authorization(name: &str, network: &str, kind: &str) -> Authorization {
    Authorization {
        meta: Arc::new(Meta::new_default(name)),
        networks: vec![ClientNetwork {
            network: network.parse().unwrap(),
            except: vec!["10.9.0.0/16".parse().unwrap()],
        }],
        authentication: authentication(kind),
    }
}

fn opaque(authorizations: Vec<Authorization>) -> ServerPolicy {
    ServerPolicy {
        meta: Arc::new(Meta::new_default("server")),
        protocol: ServerProtocol::Opaque,
        authorizations,
        invalid: None,
    }
}

fn at(client: &str) -> SocketAddr {
    SocketAddr::new(client.parse().unwrap(), 40_000)
}

#[test]
fn every_combination_of_tls_network_and_authentication() {
    use UnmetCondition::*;
    let (ok, listed) = (None, Some(IdentityNotListed));
    // The columns are those of `TLS`.
    let no = Some(NoTls);
    let table = [
        ("unauthenticated", [ok, ok, ok, ok, ok, ok, ok, ok]),
        ("mesh TLS", [no, no, no, ok, ok, ok, ok, ok]),
        (
            "exact",
            [no, no, no, Some(NoIdentity), ok, listed, listed, ok],
        ),
        (
            "suffix",
            [no, no, no, Some(NoIdentity), ok, ok, listed, listed],
        ),
        ("any", [no, no, no, Some(NoIdentity), ok, ok, ok, listed]),
        (
            "none",
            [no, no, no, Some(NoIdentity), listed, listed, listed, listed],
        ),
    ];
    for (kind, expected) in table {
        let policy = opaque(vec![authorization("it", "10.0.0.0/8", kind)]);
        for (name, expected) in TLS.into_iter().zip(expected) {
            for (client, network) in [
                (INSIDE, None),
                (EXCEPTED, Some(ExceptedNetwork)),
                (OUTSIDE, Some(Network)),
            ] {
                let decided = policy.authorize_connection(at(client), &tls(name));
                let unmet = decided.err().map(|denial| denial.nearest.unwrap().unmet);
                assert_eq!(unmet, network.or(expected), "{kind}, {name}, {client}");
            }
        }
    }
}

#[test]
fn a_mapped_address_is_the_one_that_it_maps() {
    let policy = opaque(vec![authorization("it", "10.0.0.0/8", "unauthenticated")]);
    let mapped = SocketAddr::new("::ffff:10.1.2.3".parse().unwrap(), 1);
    assert!(policy.authorize_connection(mapped, &tls("plain")).is_ok());
}

#[test]
fn a_denial_names_the_nearest_authorization_and_what_the_client_lacks() {
    let policy = opaque(vec![
        authorization("elsewhere", "192.0.2.0/24", "unauthenticated"),
        authorization("named", "10.0.0.0/8", "exact"),
        authorization("also named", "10.0.0.0/8", "suffix"),
    ]);
    let nearest = |name| {
        let decided = policy.authorize_connection(at(INSIDE), &tls(name));
        decided.unwrap_err().nearest.unwrap().to_string()
    };
    assert_eq!(nearest("plain"), "default/named (no TLS)");
    assert_eq!(nearest("anonymous"), "default/named (no identity)");
    assert_eq!(nearest("x.test"), "default/named (identity not listed)");
    let nobody = opaque(Vec::new());
    let denial = nobody.authorize_connection(at(INSIDE), &tls("plain"));
    assert_eq!(denial.unwrap_err().nearest, None);
}

#[test]
fn a_route_has_its_own_authorizations_before_those_of_the_server() {
    let route = |name: &str, authorizations: Vec<Authorization>| InboundRoute {
        rule: RouteRule::for_all(Arc::new(Meta::new_default(name)), Distribution::Empty),
        authorizations: authorizations.into(),
        has_unknown_filter: false,
    };
    let own = authorization("own", "10.0.0.0/8", "exact");
    let routes = InboundRoutes::new([route("own", vec![own]), route("open", Vec::new())]);
    let policy = ServerPolicy {
        protocol: ServerProtocol::Http1(InboundHttp {
            routes,
            rate_limit: None,
        }),
        ..opaque(vec![authorization("server", "10.0.0.0/8", "suffix")])
    };
    let by = |rule, name| {
        let decided = policy.authorize_request(rule, at(INSIDE), &tls(name));
        decided.map(|authorization| authorization.meta.name().to_owned())
    };
    assert_eq!(by(0, "web.shop.test").unwrap(), "own");
    assert_eq!(by(1, "web.shop.test").unwrap(), "server");
    assert_eq!(by(0, "db.shop.test").unwrap(), "server");
    let denial = by(0, "web.other.test").unwrap_err();
    assert_eq!(denial.route.unwrap().name(), "own");
    assert_eq!(denial.server.name(), "server");
    let connection = policy.authorize_connection(at(INSIDE), &tls("web.shop.test"));
    assert!(connection.is_err(), "a port of HTTP admits no other bytes");
}

/// The specified rules, implemented literally, without regard to speed.
fn naive(authorization: &Authorization, client: IpAddr, tls: &TlsStatus) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let within = |net: &IpNet| {
        net.addr().is_ipv4() == client.is_ipv4()
            && (0..net.prefix_len()).all(|bit| {
                let mask = 1u128 << (127 - bit);
                bits(net.addr()) & mask == bits(client) & mask
            })
    };
    let mut in_network = false;
    for network in &authorization.networks {
        in_network |= within(&network.network) && !network.except.iter().any(within);
    }
    let is_authenticated = match &authorization.authentication {
        Authentication::Unauthenticated => true,
        Authentication::MeshTls => tls.is_meshed(),
        Authentication::Identities(listed) => tls.identity().is_some_and(|identity| {
            listed
                .exact
                .iter()
                .any(|exact| **exact == *identity.as_str())
                || (!identity.as_str().contains("://")
                    && listed
                        .suffixes
                        .iter()
                        .any(|suffix| identity.as_str().ends_with(&**suffix)))
        }),
    };
    in_network && is_authenticated
}

fn any_authorization() -> impl Strategy<Value = Authorization> {
    let networks = [
        "10.0.0.0/8",
        "10.1.2.3/32",
        "0.0.0.0/0",
        "::/0",
        "fd00::/8",
        "10.1.0.0/17",
    ];
    let one = (
        select(networks.to_vec()),
        proptest::collection::vec(select(networks.to_vec()), 0..2),
    );
    let networks = proptest::collection::vec(one, 0..3).prop_map(|networks| {
        let one = |(network, except): (&str, Vec<&str>)| ClientNetwork {
            network: network.parse().unwrap(),
            except: except.iter().map(|net| net.parse().unwrap()).collect(),
        };
        networks.into_iter().map(one).collect::<Vec<_>>()
    });
    (networks, select(KINDS.to_vec()), 0..1000u32).prop_map(|(networks, kind, name)| {
        Authorization {
            meta: Arc::new(Meta::new_default(name.to_string())),
            networks,
            authentication: authentication(kind),
        }
    })
}

proptest! {
    #[test]
    fn the_decision_is_that_of_a_naive_reference(
        authorizations in proptest::collection::vec(any_authorization(), 0..5),
        client in select(vec![INSIDE, EXCEPTED, OUTSIDE, "10.1.200.1", "fd00::1", "2001:db8::1"]),
        name in select(TLS.to_vec()),
    ) {
        let (client, tls) = (at(client), tls(name));
        let policy = opaque(authorizations.clone());
        let first = authorizations.iter().find(|it| naive(it, client.ip(), &tls));
        match policy.authorize_connection(client, &tls) {
            Ok(admitted) => prop_assert_eq!(Some(admitted), first),
            Err(denial) => {
                prop_assert_eq!(None, first);
                let unmet = |it: &Authorization| it.unmet(client.ip(), &tls).unwrap();
                let furthest = authorizations.iter().map(unmet).max();
                prop_assert_eq!(denial.nearest.map(|nearest| nearest.unmet), furthest);
            }
        }
    }
}
