use super::*;
use linkerd_api_proto::{
    http_route as wire_match,
    inbound::{
        Authn, Authz, HttpLocalRateLimit, HttpRoute, Identity, IdentitySuffix, Network,
        ProxyProtocol, authn, http_local_rate_limit as wire_limit, http_route, proxy_protocol,
    },
    meta, net, prost_types,
};
use linkerd_profiles::{Authentication, Meta, UnmetCondition};
use linkerd_proxy_core::tls::{NoTlsReason, TlsStatus};
use proptest::prelude::*;
use std::collections::HashMap;

fn labels(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn resource(kind: &str, name: &str) -> Option<meta::Metadata> {
    Some(meta::Metadata {
        kind: Some(meta::metadata::Kind::Resource(meta::Resource {
            group: "policy.linkerd.io".into(),
            kind: kind.into(),
            name: name.into(),
            ..meta::Resource::default()
        })),
    })
}

fn network(net: &str) -> Network {
    Network {
        net: Some(net.parse::<IpNetText>().unwrap().0),
        except: Vec::new(),
    }
}

/// A network in wire format, parsed from its text.
struct IpNetText(net::IpNetwork);

impl std::str::FromStr for IpNetText {
    type Err = ipnet::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.parse::<ipnet::IpNet>()?.into()))
    }
}

fn permit(permit: authn::Permit) -> Option<Authn> {
    Some(Authn {
        permit: Some(permit),
    })
}

fn unauthenticated() -> Option<Authn> {
    permit(authn::Permit::Unauthenticated(
        authn::PermitUnauthenticated {},
    ))
}

fn authz(authentication: Option<Authn>) -> Authz {
    Authz {
        networks: vec![network("10.0.0.0/8")],
        authentication,
        labels: HashMap::new(),
        metadata: resource("authorizationpolicy", "web"),
    }
}

fn identities(exact: &[&str], suffixes: &[&[&str]]) -> Option<Authn> {
    use authn::permit_mesh_tls::{Clients, PermitClientIdentities};
    let suffix = |parts: &&[&str]| IdentitySuffix {
        parts: parts.iter().map(|part| (*part).to_owned()).collect(),
    };
    let name = |name: &&str| Identity {
        name: (*name).to_owned(),
    };
    permit(authn::Permit::MeshTls(authn::PermitMeshTls {
        clients: Some(Clients::Identities(PermitClientIdentities {
            identities: exact.iter().map(name).collect(),
            suffixes: suffixes.iter().map(suffix).collect(),
        })),
    }))
}

fn server(kind: proxy_protocol::Kind) -> Server {
    Server {
        protocol: Some(ProxyProtocol { kind: Some(kind) }),
        server_ips: Vec::new(),
        authorizations: vec![authz(unauthenticated())],
        labels: labels(&[("name", "web")]),
    }
}

fn opaque() -> Server {
    server(proxy_protocol::Kind::Opaque(proxy_protocol::Opaque {}))
}

fn detect(routes: Vec<HttpRoute>) -> Server {
    server(proxy_protocol::Kind::Detect(proxy_protocol::Detect {
        timeout: Some(prost_types::Duration {
            seconds: 5,
            nanos: 0,
        }),
        http_routes: routes,
        http_local_rate_limit: None,
    }))
}

fn route(filters: Vec<http_route::Filter>) -> HttpRoute {
    HttpRoute {
        metadata: resource("HTTPRoute", "admin"),
        hosts: Vec::new(),
        authorizations: vec![authz(identities(&["Web.test"], &[]))],
        rules: vec![http_route::Rule {
            matches: vec![wire_match::HttpRouteMatch {
                path: Some(wire_match::PathMatch {
                    kind: Some(wire_match::path_match::Kind::Prefix("/admin".into())),
                }),
                ..Default::default()
            }],
            filters,
        }],
    }
}

fn refusal(server: Server) -> String {
    let policy = server_policy(server);
    assert_eq!(*policy.meta, Meta::new_default("invalid"));
    policy.invalid.expect("it is invalid")
}

#[test]
fn a_server_has_its_protocol_its_authorizations_and_localhost() {
    let policy = server_policy(detect(vec![route(Vec::new())]));
    assert_eq!(policy.invalid, None);
    assert_eq!(policy.meta.kind_and_name().to_string(), "server/web");
    let names: Vec<_> = policy
        .authorizations
        .iter()
        .map(|it| it.meta.name())
        .collect();
    assert_eq!(names, ["web", "localhost"]);
    let routes = &policy.http().unwrap().routes;
    assert_eq!(routes.rules()[0].meta.group(), "policy.linkerd.io");
    let plain = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
    let request = |client: [u8; 4], tls| {
        let decided = policy.authorize_request(0, (client, 1).into(), tls);
        decided.map(|it| it.meta.name().to_owned())
    };
    assert_eq!(request([127, 0, 0, 1], &plain).unwrap(), "localhost");
    assert_eq!(request([10, 0, 0, 1], &plain).unwrap(), "web");
    let denial = request([192, 0, 2, 1], &plain).unwrap_err();
    assert_eq!(denial.nearest.unwrap().unmet, UnmetCondition::Network);
}

#[test]
fn clients_on_loopback_are_admitted_only_by_the_exception_for_them() {
    let local = ([127, 0, 0, 1], 1).into();
    let plain = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
    let message = detect(vec![route(Vec::new())]);
    let admits = |policy: ServerPolicy| policy.authorize_request(0, local, &plain).is_ok();
    assert!(admits(server_policy(message.clone())));
    assert!(!admits(server_policy_alone(message)));
    let invalid = server_policy(Server::default());
    assert!(invalid.invalid.is_some() && invalid.authorizations.is_empty());
}

#[test]
fn without_routes_there_is_one_for_all_requests() {
    let policy = server_policy(detect(Vec::new()));
    let rules = policy.http().unwrap().routes.rules();
    assert_eq!((rules.len(), rules[0].meta.name()), (1, "default"));
}

#[test]
fn identities_are_compared_in_lower_case_and_suffixes_by_labels() {
    let convert = |authentication| {
        let server = Server {
            authorizations: vec![authz(authentication)],
            ..opaque()
        };
        server_policy(server).authorizations[0]
            .authentication
            .clone()
    };
    let Authentication::Identities(listed) = convert(identities(
        &["Web.Test", "spiffe://Test/Web"],
        &[&["Shop", "test"], &[]],
    )) else {
        panic!("it lists identities");
    };
    let exact: Vec<_> = listed.exact.iter().map(|name| &**name).collect();
    assert_eq!(exact, ["spiffe://Test/Web", "web.test"]);
    let suffixes: Vec<_> = listed.suffixes.iter().map(|suffix| &**suffix).collect();
    assert_eq!(suffixes, [".shop.test", ""]);
}

#[test]
fn resources_are_named_by_labels_of_every_age() {
    let name = |pairs: &[(&str, &str)]| {
        let labels = labels(pairs);
        let policy = server_policy(Server { labels, ..opaque() });
        let meta = policy.meta;
        format!("{}|{}|{}", meta.group(), meta.kind(), meta.name())
    };
    assert_eq!(name(&[("name", "web")]), "policy.linkerd.io|server|web");
    assert_eq!(name(&[("name", "default:deny")]), "|default|deny");
    assert_eq!(name(&[("name", "k:n")]), "policy.linkerd.io|k|n");
    let whole = [("group", "g"), ("kind", "k"), ("name", "n:m")];
    assert_eq!(name(&whole), "g|k|n:m");
    let default = [("group", ""), ("kind", "default"), ("name", "deny")];
    assert_eq!(name(&default), "|default|deny");
}

#[test]
fn a_filter_of_an_unknown_kind_is_a_fault_of_its_rule_alone() {
    let unknown = http_route::Filter { kind: None };
    let policy = server_policy(detect(vec![route(vec![unknown]), route(Vec::new())]));
    let routes = &policy.http().unwrap().routes;
    assert!(routes.has_unknown_filter(0) && !routes.has_unknown_filter(1));
}

#[test]
fn limits_of_0_are_none() {
    let limit = |requests_per_second| {
        Some(wire_limit::Limit {
            requests_per_second,
        })
    };
    let named = |name: &str, per_second| wire_limit::Override {
        limit: limit(per_second),
        clients: Some(wire_limit::r#override::ClientIdentities {
            identities: vec![Identity { name: name.into() }],
        }),
    };
    let with = |overrides| {
        server(proxy_protocol::Kind::Http1(proxy_protocol::Http1 {
            routes: Vec::new(),
            local_rate_limit: Some(HttpLocalRateLimit {
                metadata: resource("httplocalratelimitpolicy", "it"),
                total: limit(0),
                identity: limit(5),
                overrides,
            }),
        }))
    };
    let policy = server_policy(with(vec![named("web.test", 7), named("db.test", 0)]));
    let limiter = policy.http().unwrap().rate_limit.as_ref().unwrap();
    let settings = limiter.settings();
    assert_eq!(settings.total, None);
    assert_eq!(settings.per_identity.unwrap().get(), 5);
    assert_eq!(settings.overrides.len(), 1);
    let refusal = refusal(with(vec![named("not a name", 7)]));
    assert!(refusal.contains("impossible identity"), "{refusal}");
}

#[test]
fn the_reason_of_an_invalid_server_is_named() {
    let authorized = |authz| Server {
        authorizations: vec![authz],
        ..opaque()
    };
    let without = |change: fn(&mut Authz)| {
        let mut authz = authz(unauthenticated());
        change(&mut authz);
        authorized(authz)
    };
    let detect_within = |timeout| {
        server(proxy_protocol::Kind::Detect(proxy_protocol::Detect {
            timeout,
            ..Default::default()
        }))
    };
    let negative = prost_types::Duration {
        seconds: -1,
        nanos: 0,
    };
    let unnamed_route = HttpRoute {
        metadata: None,
        ..route(Vec::new())
    };
    for (server, part) in [
        (
            Server {
                protocol: None,
                ..opaque()
            },
            "the protocol is missing",
        ),
        (detect_within(None), "the detection timeout is missing"),
        (
            detect_within(Some(negative)),
            "the detection timeout is no duration",
        ),
        (without(|it| it.networks.clear()), "no networks"),
        (
            without(|it| it.authentication = None),
            "the authentication of",
        ),
        (
            without(|it| it.networks[0].net = None),
            "a network is missing",
        ),
        (without(|it| it.metadata = None), "no name"),
        (
            Server {
                labels: HashMap::new(),
                ..opaque()
            },
            "no name",
        ),
        (detect(vec![unnamed_route]), "a route's metadata is missing"),
    ] {
        let refusal = refusal(server);
        assert!(refusal.contains(part), "{refusal:?} lacks {part:?}");
    }
}

proptest! {
    #[test]
    fn no_message_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(server) = <Server as prost::Message>::decode(&bytes[..]) {
            server_policy(server);
        }
    }
}
