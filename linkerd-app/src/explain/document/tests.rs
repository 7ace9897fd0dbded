use super::*;
use crate::explain::QueryFields;
use linkerd_profiles::{
    Backend, ClientPolicy, Dispatcher, Distribution, HttpBackend, HttpFilter, Meta, OpaqueRoute,
    PeakEwma, Profile, ProfileMatch, ProfileRoute, ProfileTarget, Protocol, Redirect, RouteRule,
    RouteTable,
};
use std::{sync::Arc, time::Duration};

fn backend(name: &str) -> Backend {
    Backend {
        meta: Arc::new(Meta::new_default(name)),
        dispatcher: Dispatcher::Balance {
            destination: format!("{name}:80").parse().unwrap(),
            load: PeakEwma::default(),
            breaker: None,
        },
        filter: None,
    }
}

fn http(distribution: Distribution<HttpBackend>) -> Protocol {
    let meta = Arc::new(Meta::new_default("all"));
    let rule = RouteRule::for_all(meta, distribution);
    Protocol::Http1(Arc::new(RouteTable::new(vec![rule])))
}

fn profile(name: Option<&str>) -> Profile {
    Profile {
        logical: name.map(|name| name.parse().unwrap()),
        opaque: false,
        targets: Vec::new(),
        endpoint: None,
        routes: Vec::new(),
        retry_budget: None,
    }
}

fn explain(protocol: Protocol, profile: Option<Profile>) -> Explanation {
    let fields = QueryFields {
        url: Some("http://web/a".to_owned()),
        ..QueryFields::default()
    };
    let query = fields.check().unwrap();
    let policy = ClientPolicy {
        protocol,
        ..ClientPolicy::empty()
    };
    let discovered = Discovered {
        target: query.target.clone(),
        policy: Arc::new(policy),
        profile: profile.map(Arc::new),
    };
    Explanation::new(&query, &discovered)
}

fn only(name: &str) -> Distribution<HttpBackend> {
    Distribution::only(backend(name).into())
}

#[test]
fn which_of_both_messages_routes_and_why() {
    let routes = Profile {
        routes: vec![Arc::new(ProfileRoute {
            timeout: Some(Duration::from_millis(50)),
            ..ProfileRoute::new(ProfileMatch::EVERY)
        })],
        ..profile(Some("web.ns.svc.cluster.local:80"))
    };
    let nameless = Profile {
        logical: None,
        ..routes.clone()
    };
    let plain = profile(Some("web.ns.svc.cluster.local:80"));
    for (profile, source, why) in [
        (None, "policy", "no profile"),
        (Some(plain), "policy", "neither routes nor a split"),
        (Some(nameless), "policy", "no fully qualified name"),
        (Some(routes.clone()), "profile", "come before the policy"),
    ] {
        let document = explain(http(only("a")), profile).document;
        assert_eq!(document["routed_by"]["source"], source);
        let reason = document["routed_by"]["why"].as_str().unwrap();
        assert!(reason.contains(why), "{reason}");
    }
    let document = explain(http(only("a")), Some(routes)).document;
    assert_eq!(document["route"]["timeouts"]["profile_ms"], 50);
}

#[test]
fn the_split_of_a_profile_is_shown_in_shares() {
    let target = |name: &str, weight| ProfileTarget {
        destination: format!("{name}:80").parse().unwrap(),
        weight,
    };
    let split = Profile {
        targets: vec![target("a", 1), target("b", 3)],
        ..profile(Some("web.ns.svc.cluster.local:80"))
    };
    let explained = explain(http(only("c")), Some(split));
    let distribution = &explained.document["route"]["distribution"];
    assert_eq!(distribution["choice"], "random by weight");
    let backends = &distribution["backends"];
    assert_eq!(backends[0]["share"], 0.25);
    assert_eq!(backends[1]["destination"], "b:80");
    assert_eq!(explained.backends.unwrap().backends.len(), 2);
}

#[test]
fn what_no_request_passes_says_why() {
    let empty = Arc::new(RouteTable::default());
    for (protocol, refused) in [
        (Protocol::Http1(empty), Some("no rule matches")),
        (Protocol::Opaque(None), Some("no route for connections")),
        (http(only("a")), None),
        (http(Distribution::Empty), Some("no backend: ")),
        (http(Distribution::Weightless), Some("weight above 0")),
    ] {
        let document = explain(protocol, None).document;
        let reason = document["refused"].as_str();
        match refused {
            Some(part) => assert!(reason.unwrap().contains(part), "{document}"),
            None => assert_eq!(reason, None, "{document}"),
        }
    }
    // A redirect needs no backend.
    let meta = Arc::new(Meta::new_default("away"));
    let rule = RouteRule {
        filters: vec![HttpFilter::Redirect(Redirect {
            scheme: None,
            host: None,
            port: Some(8443),
            path: None,
            status: http::StatusCode::FOUND,
        })],
        ..RouteRule::for_all(meta, Distribution::Empty)
    };
    let redirecting = Protocol::Http1(Arc::new(RouteTable::new(vec![rule])));
    let document = explain(redirecting, None).document;
    assert_eq!(document.get("refused"), None, "{document}");
    assert_eq!(document["route"]["answered_by_filters"]["redirects"], true);
    let meta = Arc::new(Meta::new_default("bytes"));
    let opaque = OpaqueRoute {
        meta,
        distribution: Distribution::only(backend("a")),
        filter: None,
    };
    let document = explain(Protocol::Opaque(Some(opaque)), None).document;
    assert_eq!(document["route"]["route"], "default.bytes");
    assert!(document["note"].as_str().unwrap().contains("opaque"));
}

#[test]
fn states_of_workers_are_added_to_their_backends() {
    let mut explained = explain(http(only("a")), None);
    explained.add_states(vec![
        json!([null]),
        json!([{ "available": true }]),
        Value::Null,
    ]);
    let distribution = &explained.document["route"]["distribution"];
    assert_eq!(distribution["choice"], "the only one");
    let backends = &distribution["backends"];
    assert_eq!(
        backends[0]["workers"],
        json!([{ "available": true, "worker": 1 }])
    );
}
