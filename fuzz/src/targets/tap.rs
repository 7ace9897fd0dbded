//! The conditions of a tap.
//!
//! **Input**: the first byte selects the form: the parameters of `/tap`, or the message of the Tap API.

use super::Target;
use http::{Method, Version};
use linkerd_api_proto::tap::{
    ObserveRequest,
    observe_request::{
        Match,
        r#match::{self, Label, Seq},
    },
};
use linkerd_app::tap::{
    AddrMatch, TapFields, TapMatch, TapSettings, TappedRequest, TappedWay, read_request,
};
use linkerd_proxy_core::{
    tls::{NoTlsReason, TlsStatus},
    transport::Side,
};
use prost::Message;

pub(super) const TARGET: Target = Target {
    name: "tap",
    run,
    seeds,
    words: &[
        b"direction=inbound",
        b"&to=:80",
        b"&from=10.0.0.0/8",
        b"&to_label=pod%3Dweb",
        b"&limit=",
        b"&path=%2Fapi",
    ],
};

/// Valid conditions decide about a request at its endpoint at the latest; a decision on arrival stays the same.
fn run(input: &[u8]) {
    let settings = match input.split_first() {
        Some((0, query)) => of_parameters(&String::from_utf8_lossy(query)),
        Some((_, message)) => ObserveRequest::decode(message)
            .ok()
            .and_then(|request| read_request(request, "fuzz".to_owned()).ok()),
        None => None,
    };
    let Some(TapSettings { matches, .. }) = settings else {
        return;
    };
    assert!(size(&matches) <= 300, "{matches}");
    let early = matches.find(&request(), None);
    let late = matches.find(&request(), Some(&way()));
    assert!(late.is_some() && (early.is_none() || early == late));
}

/// Accepted parameters are written in a form with the same meaning.
fn of_parameters(query: &str) -> Option<TapSettings> {
    let fields = TapFields::of_parameters(query).ok()?;
    let written = TapFields::of_parameters(&fields.to_parameters());
    assert_eq!(written.as_ref(), Ok(&fields));
    fields.check("fuzz".to_owned()).ok()
}

fn size(condition: &TapMatch) -> usize {
    match condition {
        TapMatch::All(all) | TapMatch::Any(all) => 1 + all.iter().map(size).sum::<usize>(),
        TapMatch::Not(not) => 1 + size(not),
        TapMatch::Source(AddrMatch::Ports(ports))
        | TapMatch::Destination(AddrMatch::Ports(ports)) => {
            assert!(!ports.is_empty());
            1
        }
        _ => 1,
    }
}

fn request() -> TappedRequest {
    TappedRequest {
        side: Side::Outbound,
        source: ([10, 0, 0, 7], 40_000).into(),
        source_tls: TlsStatus::None(NoTlsReason::Loopback),
        going_to: ([10, 0, 0, 9], 80).into(),
        version: Version::HTTP_11,
        method: Method::GET,
        scheme: "http".to_owned(),
        authority: "wéb:80".to_owned(),
        path: "/api".to_owned(),
    }
}

fn way() -> TappedWay {
    TappedWay {
        destination: Some(([10, 1, 0, 1], 80).into()),
        destination_labels: vec![("pod".to_owned(), "web".to_owned())],
        ..TappedWay::default()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let queries = [
        "direction=outbound&method=GET&authority=web&path=/api&limit=10&max_rps=5",
        "from=10.0.0.0/8&to=:80&to_label=pod%3Dweb&route_label=route%3Dall&headers=true",
        "scheme=https&from=10.0.0.7:40000&to=%5B2001:db8::1%5D:80",
    ];
    let queries = queries.map(|query| [&[0], query.as_bytes()].concat());
    let label = |value: &str| Match {
        r#match: Some(r#match::Match::DestinationLabel(Label {
            key: "pod".to_owned(),
            value: value.to_owned(),
        })),
    };
    let not = Match {
        r#match: Some(r#match::Match::Not(Box::new(label("api")))),
    };
    let all = Seq {
        matches: vec![label("web"), not],
    };
    let request = ObserveRequest {
        limit: 100,
        r#match: Some(Match {
            r#match: Some(r#match::Match::All(all)),
        }),
        ..ObserveRequest::default()
    };
    let message = [&[1], &*request.encode_to_vec()].concat();
    queries.into_iter().chain([message]).collect()
}
