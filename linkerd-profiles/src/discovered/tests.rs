use super::*;
use crate::{
    policy::OpaqueRoute,
    profile::ProfileTarget,
    route::{RouteRule, RouteTable},
};
use http::Version;

fn distribution(path: &str) -> Distribution {
    Distribution::only(Backend {
        meta: Arc::new(Meta::new_default("backend")),
        dispatcher: Dispatcher::Balance {
            destination: path.parse().unwrap(),
            load: PeakEwma::default(),
        },
        filter: None,
    })
}

fn rule(path: &str) -> RouteRule {
    RouteRule::for_all(Arc::new(Meta::new_default("http")), distribution(path))
}

fn table(rule: RouteRule) -> RouteTable {
    [rule].into_iter().collect()
}

fn opaque(filter: Option<TcpFilter>) -> Option<OpaqueRoute> {
    Some(OpaqueRoute {
        meta: Arc::new(Meta::new_default("tcp")),
        distribution: distribution("tcp:80"),
        filter,
    })
}

fn detect() -> Protocol {
    Protocol::Detect {
        timeout: Duration::from_secs(10),
        http1: table(rule("one:80")),
        http2: table(rule("two:80")),
        opaque: opaque(None),
    }
}

fn profile(targets: &[(&str, u32)]) -> Profile {
    Profile {
        logical: Some("web.books.svc.cluster.local:80".parse().unwrap()),
        opaque: false,
        targets: targets
            .iter()
            .map(|(name, weight)| ProfileTarget {
                destination: Destination::new(name, 80).unwrap(),
                weight: *weight,
            })
            .collect(),
        endpoint: None,
        has_routes: false,
    }
}

fn discovered(protocol: Protocol, profile: Option<Profile>) -> Discovered {
    Discovered {
        target: "10.0.0.1:80".parse().unwrap(),
        policy: Arc::new(ClientPolicy {
            protocol,
            ..ClientPolicy::empty()
        }),
        profile: profile.map(Arc::new),
    }
}

/// `parent/route -> paths`, or why not.
fn shown(source: RouteSource) -> String {
    match source {
        RouteSource::Route(spec) => {
            let paths: Vec<_> = spec
                .distribution
                .backends()
                .map(|backend| match &backend.dispatcher {
                    Dispatcher::Balance { destination, .. } => destination.as_str(),
                    dispatcher => panic!("{dispatcher:?}"),
                })
                .collect();
            let canonical = spec
                .canonical_header
                .map(|_| " canonical")
                .unwrap_or_default();
            format!(
                "{}/{} -> {}{canonical}",
                spec.parent,
                spec.route,
                paths.join(" ")
            )
        }
        RouteSource::NoRoute { parent } => format!("{parent} has no route"),
        RouteSource::Refused { parent, filter, .. } => format!("{parent} refuses: {filter:?}"),
        RouteSource::Invalid { parent, reason } => format!("{parent} is invalid: {reason}"),
    }
}

#[test]
fn a_profile_with_routes_or_targets_routes_http() {
    let http =
        |profile: Option<Profile>| shown(discovered(detect(), profile).http(Version::HTTP_11));
    let by_policy = "default.empty/default.http -> one:80";
    assert_eq!(http(None), by_policy);
    assert_eq!(http(Some(profile(&[]))), by_policy, "nothing to say");
    let anonymous = Profile {
        logical: None,
        ..profile(&[("a.books.svc", 1)])
    };
    assert_eq!(http(Some(anonymous)), by_policy, "no logical address");
    let with_routes = Profile {
        has_routes: true,
        ..profile(&[])
    };
    assert_eq!(
        http(Some(with_routes)),
        "Service.books.web:80/default.serviceprofile -> web.books.svc.cluster.local:80 canonical"
    );
    assert_eq!(
        http(Some(profile(&[("a.books.svc", 1), ("example.com", 2)]))),
        "Service.books.web:80/default.serviceprofile -> a.books.svc:80 example.com:80 canonical"
    );
    let discovered = discovered(detect(), Some(profile(&[])));
    let RouteSource::Route(spec) = discovered.http(Version::HTTP_2) else {
        panic!("must have a route");
    };
    assert_eq!(
        spec.logical,
        Some("web.books.svc.cluster.local:80".parse().unwrap())
    );
    assert_eq!(spec.distribution, distribution("two:80"));
}

#[test]
fn the_profile_decides_on_opaque_before_the_policy() {
    let opaque_profile = || Profile {
        opaque: true,
        ..profile(&[])
    };
    let http1 = || Protocol::Http1(table(rule("one:80")));
    assert_eq!(discovered(http1(), None).protocol(), ProtocolKind::Http1);
    let contradicted = discovered(http1(), Some(opaque_profile()));
    assert_eq!(contradicted.protocol(), ProtocolKind::Opaque);
    assert_eq!(
        shown(contradicted.opaque()),
        "default.empty is invalid: the policy is not for opaque connections"
    );
    let with_targets = Profile {
        opaque: true,
        ..profile(&[("a.books.svc", 1)])
    };
    assert_eq!(
        shown(discovered(http1(), Some(with_targets)).opaque()),
        "Service.books.web:80/default.serviceprofile -> a.books.svc:80"
    );
    assert_eq!(
        shown(discovered(detect(), Some(opaque_profile())).opaque()),
        "default.empty/default.tcp -> tcp:80"
    );
}

#[test]
fn a_route_that_denies_by_injected_failures_lets_nothing_through() {
    let denying = RouteRule {
        injects_failures: true,
        ..rule("one:80")
    };
    let source = discovered(Protocol::Http1(table(denying)), None).http(Version::HTTP_11);
    let RouteSource::Refused { filter, .. } = source else {
        panic!("must be refused: {source:?}");
    };
    assert_eq!(filter, TcpFilter::Forbidden);
}

#[test]
fn refusals_name_their_reason() {
    let forbidden = Protocol::Opaque(opaque(Some(TcpFilter::Forbidden)));
    assert_eq!(
        shown(discovered(forbidden.clone(), None).opaque()),
        "default.empty refuses: Forbidden"
    );
    assert_eq!(
        shown(discovered(forbidden, None).http(Version::HTTP_11)),
        "default.empty is invalid: the policy is not for HTTP"
    );
    assert_eq!(
        shown(discovered(Protocol::Opaque(None), None).opaque()),
        "default.empty has no route"
    );
    assert_eq!(
        shown(discovered(Protocol::Http1(RouteTable::default()), None).http(Version::HTTP_11)),
        "default.empty has no route"
    );
    let invalid = Discovered {
        policy: Arc::new(ClientPolicy::invalid("weights")),
        ..discovered(detect(), None)
    };
    for source in [invalid.http(Version::HTTP_2), invalid.opaque()] {
        assert_eq!(shown(source), "default.invalid is invalid: weights");
    }
}
