use super::*;
use crate::{
    policy::OpaqueRoute,
    profile::ProfileTarget,
    route::{HttpBackend, Pattern, RouteRule, RouteTable},
};
use http::{Request, Version};

fn distribution(path: &str) -> Distribution {
    Distribution::only(Backend {
        meta: Arc::new(Meta::new_default("backend")),
        dispatcher: Dispatcher::Balance {
            destination: path.parse().unwrap(),
            load: PeakEwma::default(),
            breaker: None,
        },
        filter: None,
    })
}

fn rule(path: &str) -> RouteRule {
    let backends = distribution(path).map(HttpBackend::from);
    RouteRule::for_all(Arc::new(Meta::new_default("http")), backends)
}

fn table(rule: RouteRule) -> Arc<RouteTable> {
    Arc::new(RouteTable::new(vec![rule]))
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
        routes: Vec::new(),
        retry_budget: None,
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

/// The destination of a backend.
fn destination(backend: &Backend) -> &str {
    match &backend.dispatcher {
        Dispatcher::Balance { destination, .. } => destination.as_str(),
        dispatcher => panic!("{dispatcher:?}"),
    }
}

/// `parent/route -> destinations` of each HTTP rule, or the reason why there is none.
fn shown_http(routing: Result<HttpRouting, InvalidRouting>) -> String {
    let routing = match routing {
        Ok(routing) => routing,
        Err(invalid) => return format!("invalid: {}", invalid.reason),
    };
    let canonical = routing.canonical_header.as_ref();
    let canonical = canonical.map(|_| " canonical").unwrap_or_default();
    let rules = routing.table.rules().iter().map(|rule| {
        let backends = rule.distribution.backends();
        let paths: Vec<_> = backends.map(|used| destination(&used.backend)).collect();
        format!("{}/{} -> {}", routing.parent, rule.meta, paths.join(" "))
    });
    rules.collect::<Vec<_>>().join(", ") + canonical
}

/// `parent/route -> destinations`, or the reason why there is none.
fn shown(source: RouteSource) -> String {
    match source {
        RouteSource::Route(RouteSpec {
            parent,
            filter: Some(filter),
            ..
        }) => format!("{parent} refuses: {filter:?}"),
        RouteSource::Route(spec) => {
            let paths: Vec<_> = spec.distribution.backends().map(destination).collect();
            format!("{}/{} -> {}", spec.parent, spec.route, paths.join(" "))
        }
        RouteSource::NoRoute { parent } => format!("{parent} has no route"),
        RouteSource::Invalid { parent, reason } => format!("{parent} is invalid: {reason}"),
    }
}

#[test]
fn a_profile_with_routes_or_targets_routes_http() {
    let http =
        |profile: Option<Profile>| shown_http(discovered(detect(), profile).http(Version::HTTP_11));
    let by_policy = "default.empty/default.http -> one:80";
    assert_eq!(http(None), by_policy);
    assert_eq!(http(Some(profile(&[]))), by_policy, "nothing to say");
    let anonymous = Profile {
        logical: None,
        ..profile(&[("a.books.svc", 1)])
    };
    assert_eq!(http(Some(anonymous)), by_policy, "no logical address");
    let with_routes = Profile {
        routes: vec![Arc::new(ProfileRoute::new(ProfileMatch::EVERY))],
        ..profile(&[])
    };
    let shown = "Service.books.web:80/default.serviceprofile -> web.books.svc.cluster.local:80";
    assert_eq!(
        http(Some(with_routes)),
        format!("{shown}, {shown} canonical"),
        "the route, and one for all other requests"
    );
    assert_eq!(
        http(Some(profile(&[("a.books.svc", 1), ("example.com", 2)]))),
        "Service.books.web:80/default.serviceprofile -> a.books.svc:80 example.com:80 canonical"
    );
    let discovered = discovered(detect(), Some(profile(&[])));
    let routing = discovered.http(Version::HTTP_2).unwrap();
    assert_eq!(
        routing.logical,
        Some("web.books.svc.cluster.local:80".parse().unwrap())
    );
    assert!(!routing.is_grpc);
    assert_eq!(routing.table, table(rule("two:80")));
}

#[test]
fn the_first_route_of_a_profile_that_a_request_meets_takes_it_and_the_last_takes_the_rest() {
    let path = |text| ProfileMatch::Path(Pattern::new(text).unwrap());
    let route = |condition, name: &str| {
        Arc::new(ProfileRoute {
            labels: [("route".to_owned(), name.to_owned())].into(),
            ..ProfileRoute::new(condition)
        })
    };
    let settings = RetryBudgetSettings {
        ratio: 0.2,
        min_retries_per_second: 10,
        ttl: Duration::from_secs(10),
    };
    let with_routes = Profile {
        routes: vec![
            route(path("/a.*"), "wide"),
            route(path("/ab"), "narrow"),
            route(path("/b"), "b"),
        ],
        retry_budget: Some(settings),
        ..profile(&[])
    };
    let routing = discovered(detect(), Some(with_routes)).http(Version::HTTP_11);
    let routing = routing.unwrap();
    assert_eq!(routing.retry_budget, Some(settings));
    for (uri, name) in [
        ("/ab", Some("wide")),
        ("/b", Some("b")),
        ("http://any.host/b?q", Some("b")),
        ("/c", None),
    ] {
        let request = Request::get(uri).body(()).unwrap();
        let found = routing.table.find(&request).unwrap();
        assert_eq!(found.prefix.unwrap_or(0), 0);
        let rule = &routing.table.rules()[found.index];
        let route = rule.profile.as_ref().unwrap();
        assert_eq!(route.labels.get("route").map(String::as_str), name, "{uri}");
    }
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
fn refusals_name_their_reason() {
    let forbidden = Protocol::Opaque(opaque(Some(TcpFilter::Forbidden)));
    assert_eq!(
        shown(discovered(forbidden.clone(), None).opaque()),
        "default.empty refuses: Forbidden"
    );
    assert_eq!(
        shown_http(discovered(forbidden, None).http(Version::HTTP_11)),
        "invalid: the policy is not for HTTP"
    );
    assert_eq!(
        shown(discovered(Protocol::Opaque(None), None).opaque()),
        "default.empty has no route"
    );
    let invalid = Discovered {
        policy: Arc::new(ClientPolicy::invalid("weights")),
        ..discovered(detect(), None)
    };
    let http = shown_http(invalid.http(Version::HTTP_2));
    assert_eq!(http, "invalid: weights");
    let opaque = shown(invalid.opaque());
    assert_eq!(opaque, "default.invalid is invalid: weights");
}
