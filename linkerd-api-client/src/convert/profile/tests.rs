mod features;

use super::*;
use linkerd_api_proto::{
    destination::{PathMatch, RequestMatch, Route, WeightedAddr, WeightedDst, request_match},
    http_types::{HttpMethod, http_method},
};
use linkerd_profiles::{Pattern, ProfileMatch, ProfileRoute};
use proptest::prelude::*;

type Wire = request_match::Match;

fn matching(kind: impl Into<Option<Wire>>) -> RequestMatch {
    RequestMatch {
        r#match: kind.into(),
    }
}

fn path(regex: &str) -> Wire {
    Wire::Path(PathMatch {
        regex: regex.to_owned(),
    })
}

fn method(kind: impl Into<Option<http_method::Type>>) -> Wire {
    Wire::Method(HttpMethod {
        r#type: kind.into(),
    })
}

fn all(list: impl IntoIterator<Item = Option<Wire>>) -> Wire {
    let matches = list.into_iter().map(matching).collect();
    Wire::All(request_match::Seq { matches })
}

fn any(list: impl IntoIterator<Item = Option<Wire>>) -> Wire {
    let matches = list.into_iter().map(matching).collect();
    Wire::Any(request_match::Seq { matches })
}

fn not(kind: impl Into<Option<Wire>>) -> Wire {
    Wire::Not(Box::new(matching(kind)))
}

fn route(kind: impl Into<Option<Wire>>) -> Route {
    Route {
        condition: Some(matching(kind)),
        ..Route::default()
    }
}

fn converted(routes: Vec<Route>) -> (Vec<Arc<ProfileRoute>>, Vec<String>) {
    let message = DestinationProfile {
        routes,
        ..DestinationProfile::default()
    };
    let ProfileUpdate { profile, ignored } = profile_update(message, 80);
    (profile.routes, ignored)
}

/// The condition of a route, and the ignored parts.
fn condition(kind: Wire) -> (Option<ProfileMatch>, Vec<String>) {
    let (routes, ignored) = converted(vec![route(kind)]);
    let condition = routes.first().map(|route| route.condition.clone());
    (condition, ignored)
}

fn pattern(text: &str) -> ProfileMatch {
    ProfileMatch::Path(Pattern::new(text).unwrap())
}

#[test]
fn names_targets_and_endpoints_are_read() {
    let target = |authority: &str, weight| WeightedDst {
        authority: authority.into(),
        weight,
        backend_ref: None,
    };
    let message = DestinationProfile {
        fully_qualified_name: "Web.default.svc.cluster.local".into(),
        dst_overrides: vec![
            target("a:80", 1),
            target("b", 1),
            target("c:80", 0),
            target("d:80", u32::MAX),
        ],
        endpoint: Some(WeightedAddr::default()),
        ..DestinationProfile::default()
    };
    let ProfileUpdate { profile, ignored } = profile_update(message, 80);
    assert_eq!(
        ignored,
        [
            "the endpoint: an endpoint has no address",
            "the target \"b\"",
            "the target d:80: the weights exceed 32 bits",
        ]
    );
    assert_eq!(
        profile,
        Profile {
            targets: vec![ProfileTarget {
                destination: "a:80".parse().unwrap(),
                weight: 1
            }],
            logical: Some("web.default.svc.cluster.local:80".parse().unwrap()),
            opaque: false,
            endpoint: None,
            routes: Vec::new(),
            retry_budget: None,
        }
    );
}

#[test]
fn every_kind_of_condition_is_read() {
    use ::http::Method;
    use http_method::{Registered, Type};
    let get = || method(Type::Registered(Registered::Get.into()));
    for (wire, expected) in [
        (path("/a/[^/]+"), pattern("/a/[^/]+")),
        (get(), ProfileMatch::Method(Method::GET)),
        (
            method(Type::Unregistered("PURGE".into())),
            ProfileMatch::Method(Method::from_bytes(b"PURGE").unwrap()),
        ),
        (not(path("/a")), ProfileMatch::Not(Box::new(pattern("/a")))),
        (
            all([Some(path("/a")), Some(get())]),
            ProfileMatch::All(vec![pattern("/a"), ProfileMatch::Method(Method::GET)]),
        ),
        (
            any([Some(path("/a")), Some(all([]))]),
            ProfileMatch::Any(vec![pattern("/a"), ProfileMatch::EVERY]),
        ),
        (any([]), ProfileMatch::Any(Vec::new())),
    ] {
        assert_eq!(condition(wire), (Some(expected), Vec::new()));
    }
}

#[test]
fn a_condition_that_cannot_be_used_leaves_its_list_or_takes_its_route_with_it() {
    use http_method::Type;
    let left =
        |kinds: Vec<Option<Wire>>| condition(any(kinds.into_iter().chain([path("/a").into()])));
    for (wire, error) in [
        (None, "a condition is missing"),
        (
            Some(path("(")),
            "\"(\" is no usable regular expression: error: unclosed group",
        ),
        (Some(method(None)), "a method match is missing"),
        (
            Some(method(Type::Unregistered("NO METHOD".into()))),
            "\"NO METHOD\" is no method",
        ),
        (Some(method(Type::Registered(99))), "\"99\" is no method"),
        (Some(not(None)), "a condition is missing"),
        (
            Some(not(path("("))),
            "\"(\" is no usable regular expression: error: unclosed group",
        ),
    ] {
        let message = format!("a condition of route 0: {error}");
        assert_eq!(
            left(vec![wire.clone()]),
            (Some(ProfileMatch::Any(vec![pattern("/a")])), vec![message])
        );
        let (routes, ignored) = converted(vec![route(wire), route(path("/b"))]);
        assert_eq!(routes.len(), 1);
        assert_eq!(routes[0].condition, pattern("/b"));
        assert_eq!(ignored, [format!("route 0: {error}")]);
    }
    let (routes, ignored) = converted(vec![Route::default()]);
    assert!(routes.is_empty());
    assert_eq!(ignored, ["route 0: a condition is missing"]);
}

#[test]
fn deep_nesting_and_many_expressions_are_refused() {
    let nested = |depth| (0..depth).fold(path("/a"), |inner, _| not(inner));
    assert!(condition(nested(50)).0.is_some());
    let (refused, ignored) = condition(nested(51));
    assert_eq!(refused, None);
    assert_eq!(
        ignored,
        ["route 0: conditions are nested more than 50 deep"]
    );
    let listed = (0..51).fold(path("/a"), |inner, _| all([Some(inner)]));
    let (_, ignored) = condition(listed);
    assert_eq!(
        ignored,
        ["a condition of route 0: conditions are nested more than 50 deep"]
    );

    let plain = (0..300).map(|n| route(path(&format!("/{n}"))));
    let regexes = (0..300).map(|n| route(path(&format!("/{n}/.*"))));
    let (routes, ignored) = converted(plain.chain(regexes).collect());
    assert_eq!(routes.len(), 300 + 256);
    assert_eq!(
        ignored[0],
        "route 556: there are more than 256 regular expressions"
    );
    // The log names a few of them.
    assert_eq!((ignored.len(), &*ignored[20]), (21, "24 more"));
}

/// A condition of any shape, as a peer may send it.
fn any_condition() -> impl Strategy<Value = RequestMatch> {
    let leaf = prop_oneof![
        Just(None),
        "[a-z/.*()\\[|]{0,6}".prop_map(|regex| Some(path(&regex))),
        proptest::num::i32::ANY
            .prop_map(|number| Some(method(http_method::Type::Registered(number)))),
        "[A-Z ]{0,5}".prop_map(|name| Some(method(http_method::Type::Unregistered(name)))),
    ];
    let leaf = leaf.prop_map(matching);
    leaf.prop_recursive(8, 32, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let list = list.prop_map(|matches| request_match::Seq { matches });
        prop_oneof![
            list.clone().prop_map(|list| matching(Wire::All(list))),
            list.prop_map(|list| matching(Wire::Any(list))),
            inner.prop_map(|inner| matching(Wire::Not(Box::new(inner)))),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_conversion_panic(bytes: Vec<u8>) {
        use prost::Message;
        if let Ok(profile) = DestinationProfile::decode(&bytes[..]) {
            let _ = profile_update(profile, 80);
        }
    }

    #[test]
    fn every_condition_is_converted_or_named_and_can_be_evaluated(condition in any_condition()) {
        let wire = Route { condition: Some(condition), ..Route::default() };
        let (routes, ignored) = converted(vec![wire]);
        match routes.first() {
            None => prop_assert!(ignored.iter().any(|part| part.starts_with("route 0"))),
            Some(route) => {
                let request = ::http::Request::get("/a").body(()).unwrap();
                let _ = route.condition.is_met(&request);
            }
        }
    }
}
