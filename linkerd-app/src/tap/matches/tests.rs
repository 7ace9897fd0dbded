//! Conditions, before and after the way of a request is known.

use super::*;
use http::Version;
use linkerd_proxy_core::tls::{NoTlsReason, TlsStatus};
use proptest::prelude::*;

fn request() -> TappedRequest {
    TappedRequest {
        side: Side::Outbound,
        source: ([10, 0, 0, 7], 40_000).into(),
        source_tls: TlsStatus::None(NoTlsReason::Loopback),
        going_to: ([10, 0, 0, 9], 80).into(),
        version: Version::HTTP_11,
        method: Method::GET,
        scheme: "http".to_owned(),
        authority: "Web.shop:8080".to_owned(),
        path: "/api/orders".to_owned(),
    }
}

fn way() -> TappedWay {
    TappedWay {
        destination: Some(([10, 1, 0, 1], 8080).into()),
        destination_labels: vec![("pod".to_owned(), "web-1".to_owned())],
        route_labels: vec![("route".to_owned(), "orders".to_owned())],
        ..TappedWay::default()
    }
}

fn net(text: &str) -> AddrMatch {
    AddrMatch::Net(text.parse().unwrap())
}

fn exact(text: &str) -> TextMatch {
    TextMatch::Exact(text.to_owned())
}

fn prefix(text: &str) -> TextMatch {
    TextMatch::Prefix(text.to_owned())
}

fn label(of: fn(String, String) -> TapMatch, key: &str, value: &str) -> TapMatch {
    of(key.to_owned(), value.to_owned())
}

#[test]
fn each_condition_is_met_by_its_part_of_a_request() {
    for (condition, met) in [
        (TapMatch::Direction(Side::Outbound), true),
        (TapMatch::Direction(Side::Inbound), false),
        (TapMatch::Source(net("10.0.0.0/24")), true),
        (TapMatch::Source(net("10.1.0.0/24")), false),
        (TapMatch::Source(net("0.0.0.0/0")), true),
        (TapMatch::Source(net("::/0")), false),
        (TapMatch::Source(AddrMatch::Ports(40_000..=40_001)), true),
        (TapMatch::Source(AddrMatch::Ports(1..=39_999)), false),
        (TapMatch::Destination(net("10.1.0.1/32")), true),
        (TapMatch::Destination(AddrMatch::Ports(80..=80)), false),
        (TapMatch::Scheme("HTTP".to_owned()), true),
        (TapMatch::Scheme("https".to_owned()), false),
        (TapMatch::Method(Method::GET), true),
        (TapMatch::Method(Method::POST), false),
        (TapMatch::Authority(exact("web.SHOP:8080")), true),
        (TapMatch::Authority(exact("web.shop")), false),
        (TapMatch::Authority(prefix("WEB.")), true),
        (TapMatch::Authority(prefix("web.shop:8080:and-more")), false),
        (TapMatch::Path(exact("/api/orders")), true),
        (TapMatch::Path(exact("/API/orders")), false),
        (TapMatch::Path(prefix("/api")), true),
        (TapMatch::Path(prefix("/b")), false),
        (label(TapMatch::DestinationLabel, "pod", "web-1"), true),
        (label(TapMatch::DestinationLabel, "pod", "web-2"), false),
        (label(TapMatch::RouteLabel, "route", "orders"), true),
        (label(TapMatch::RouteLabel, "pod", "web-1"), false),
        (TapMatch::All(vec![]), true),
        (TapMatch::Any(vec![]), false),
    ] {
        assert_eq!(
            condition.find(&request(), Some(&way())),
            Some(met),
            "{condition}"
        );
        let not = TapMatch::Not(Box::new(condition));
        assert_eq!(not.find(&request(), Some(&way())), Some(!met), "{not}");
    }
}

#[test]
fn a_mapped_address_is_the_one_that_it_maps() {
    let mut request = request();
    request.source = "[::ffff:10.0.0.7]:1".parse().unwrap();
    assert_eq!(
        TapMatch::Source(net("10.0.0.7/32")).find(&request, None),
        Some(true)
    );
}

#[test]
fn conditions_on_an_endpoint_are_open_until_there_is_one() {
    let on_way = TapMatch::Destination(net("10.1.0.0/16"));
    let open = |condition: TapMatch| condition.find(&request(), None);
    assert_eq!(open(on_way.clone()), None);
    assert_eq!(open(TapMatch::Not(Box::new(on_way.clone()))), None);
    let post = TapMatch::Method(Method::POST);
    let get = TapMatch::Method(Method::GET);
    assert_eq!(
        open(TapMatch::All(vec![on_way.clone(), post.clone()])),
        Some(false)
    );
    assert_eq!(open(TapMatch::All(vec![on_way.clone(), get.clone()])), None);
    assert_eq!(open(TapMatch::Any(vec![on_way.clone(), get])), Some(true));
    assert_eq!(open(TapMatch::Any(vec![on_way.clone(), post])), None);
    let nowhere = TappedWay::default();
    assert_eq!(on_way.find(&request(), Some(&nowhere)), Some(false));
}

/// Conditions of all depths on a request whose method and port are known, and on its endpoint.
fn conditions() -> impl Strategy<Value = TapMatch> {
    let leaf = prop_oneof![
        Just(TapMatch::Method(Method::GET)),
        Just(TapMatch::Method(Method::POST)),
        Just(TapMatch::Destination(AddrMatch::Ports(8080..=8080))),
        Just(TapMatch::Destination(AddrMatch::Ports(1..=1))),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(TapMatch::All),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(TapMatch::Any),
            inner.prop_map(|inner| TapMatch::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    /// A decision at the arrival of a request is the same at its endpoint.
    #[test]
    fn an_early_answer_stays(condition in conditions()) {
        let late = condition.find(&request(), Some(&way()));
        prop_assert!(late.is_some());
        let early = condition.find(&request(), None);
        prop_assert!(early.is_none() || early == late, "{condition}: {early:?}, {late:?}");
    }
}
