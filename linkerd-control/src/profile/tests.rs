use super::*;
use linkerd_api_proto::destination::{
    HttpStatusRange, PathMatch, RequestMatch, ResponseClass as WireClass,
    ResponseMatch as WireResponseMatch, Route, request_match, response_match,
};
use linkerd_api_proto::http_types::{HttpMethod, http_method};
use linkerd_api_proto::prost_types;

fn matching(kind: request_match::Match) -> RequestMatch {
    let r#match = Some(kind);
    RequestMatch { r#match }
}

fn path(regex: &str) -> RequestMatch {
    matching(request_match::Match::Path(PathMatch {
        regex: regex.to_owned(),
    }))
}

fn method(kind: http_method::Type) -> RequestMatch {
    let r#type = Some(kind);
    matching(request_match::Match::Method(HttpMethod { r#type }))
}

fn status(min: u32, max: u32) -> WireResponseMatch {
    let r#match = Some(response_match::Match::Status(HttpStatusRange { min, max }));
    WireResponseMatch { r#match }
}

#[test]
fn conditions_nest() {
    let (a, purge) = (ProfileMatch::path("/a"), ProfileMatch::method("PURGE"));
    let any = ProfileMatch::any([a.clone(), ProfileMatch::method("GET").negated()]);
    let get = method(http_method::Type::Registered(0));
    let not = matching(request_match::Match::Not(Box::new(get)));
    let matches = vec![path("/a"), not];
    let expected = matching(request_match::Match::Any(request_match::Seq { matches }));
    assert_eq!(any.build(), expected);
    let matches = vec![
        path("/a"),
        method(http_method::Type::Unregistered("PURGE".to_owned())),
    ];
    let expected = matching(request_match::Match::All(request_match::Seq { matches }));
    assert_eq!(ProfileMatch::all([a, purge]).build(), expected);
}

#[test]
fn a_route_has_its_classes_labels_timeout_and_retries() {
    let range = || ResponseMatch::status(500..=599);
    let not_implemented = || ResponseMatch::status(501..=501).negated();
    let route = ProfileRoute::new(ProfileMatch::path("/"))
        .label("route", "all")
        .class(ResponseClass::success(ResponseMatch::any([range()])))
        .class(ResponseClass::failure(ResponseMatch::all([
            range(),
            not_implemented(),
        ])))
        .timeout(Duration::from_millis(1500))
        .retryable();
    let seq = |matches| response_match::Seq { matches };
    let not = WireResponseMatch {
        r#match: Some(response_match::Match::Not(Box::new(status(501, 501)))),
    };
    let any = response_match::Match::Any(seq(vec![status(500, 599)]));
    let all = response_match::Match::All(seq(vec![status(500, 599), not]));
    let class = |kind, is_failure| WireClass {
        condition: Some(WireResponseMatch {
            r#match: Some(kind),
        }),
        is_failure,
    };
    let expected = Route {
        condition: Some(path("/")),
        response_classes: vec![class(any, false), class(all, true)],
        metrics_labels: [("route".to_owned(), "all".to_owned())].into(),
        is_retryable: true,
        timeout: Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
    };
    assert_eq!(route.build(), expected);
}

#[test]
fn a_profile_has_its_name_targets_endpoint_and_budget() {
    let endpoint = std::net::SocketAddr::from(([10, 0, 0, 1], 80));
    let profile = Profile::new("web.default.svc.cluster.local")
        .opaque()
        .target("a:80", 1)
        .target("b:80", 2)
        .endpoint(endpoint)
        .retry_budget(0.2, 10, Duration::from_secs(10))
        .build();
    assert_eq!(
        profile.fully_qualified_name,
        "web.default.svc.cluster.local"
    );
    assert!(profile.opaque_protocol);
    let targets = profile.dst_overrides.iter();
    let targets = targets.map(|target| (&*target.authority, target.weight));
    assert_eq!(targets.collect::<Vec<_>>(), [("a:80", 1), ("b:80", 2)]);
    let addr = profile.endpoint.unwrap().addr.unwrap();
    assert_eq!(std::net::SocketAddr::try_from(addr).unwrap(), endpoint);
    let budget = profile.retry_budget.unwrap();
    assert_eq!(
        (budget.retry_ratio, budget.min_retries_per_second),
        (0.2, 10)
    );
    assert_eq!(budget.ttl.unwrap().seconds, 10);
}
