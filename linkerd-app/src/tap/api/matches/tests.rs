//! Requests of the Tap API, valid and not.

use super::*;
use linkerd_api_proto::{
    http_types::{HttpMethod, http_method},
    net::IpAddress,
};
use r#match::Match as Kind;

fn of(kind: Kind) -> Match {
    Match {
        r#match: Some(kind),
    }
}

fn read(condition: Match) -> Result<String, String> {
    let request = ObserveRequest {
        limit: 1,
        r#match: Some(condition),
        extract: None,
    };
    let settings = read_request(request, "test".to_owned());
    settings
        .map(|settings| settings.matches.to_string())
        .map_err(|invalid| invalid.to_string())
}

fn tcp(kind: tcp::Match) -> Tcp {
    Tcp {
        r#match: Some(kind),
    }
}

fn netmask(ip: Option<[u8; 4]>, mask: u32) -> Tcp {
    let ip = ip.map(IpAddress::from);
    tcp(tcp::Match::Netmask(tcp::Netmask { ip, mask }))
}

fn port_range(min: u32, max: u32) -> Tcp {
    tcp(tcp::Match::Ports(tcp::PortRange { min, max }))
}

fn http(kind: http_match::Match) -> Match {
    of(Kind::Http(Http {
        r#match: Some(kind),
    }))
}

fn all(matches: Vec<Match>) -> Match {
    of(Kind::All(Seq { matches }))
}

#[test]
fn conditions_are_read() {
    let method = HttpMethod {
        r#type: Some(http_method::Type::Registered(0)),
    };
    let prefix = StringMatch {
        r#match: Some(string_match::Match::Prefix("/a".to_owned())),
    };
    let exact = StringMatch {
        r#match: Some(string_match::Match::Exact("web".to_owned())),
    };
    let label = Label {
        key: "pod".to_owned(),
        value: "web-1".to_owned(),
    };
    let not = of(Kind::Not(Box::new(of(Kind::Source(port_range(80, 0))))));
    let any = of(Kind::Any(Seq {
        matches: vec![
            of(Kind::Destination(netmask(Some([10, 0, 0, 0]), 8))),
            of(Kind::Destination(port_range(1, 1024))),
        ],
    }));
    let condition = all(vec![
        http(http_match::Match::Method(method)),
        http(http_match::Match::Path(prefix)),
        http(http_match::Match::Authority(exact)),
        http(http_match::Match::Scheme("https".into())),
        of(Kind::DestinationLabel(label.clone())),
        of(Kind::RouteLabel(label)),
        not,
        any,
    ]);
    let expected = "method GET and path \"/a\"* and authority \"web\" and scheme https and \
                    destination label pod=\"web-1\" and route label pod=\"web-1\" and \
                    not (source port 80) and (destination 10.0.0.0/8 or destination ports 1-1024)";
    assert_eq!(read(condition), Ok(expected.to_owned()));
    assert_eq!(read(all(vec![])), Ok("all requests".to_owned()));
}

#[test]
fn an_invalid_field_is_named() {
    let missing = "missing required field";
    let source = |tcp| of(Kind::Source(tcp));
    let unknown = HttpMethod {
        r#type: Some(http_method::Type::Registered(99)),
    };
    for (condition, expected) in [
        (Match { r#match: None }, format!("match: {missing}")),
        (
            all(vec![all(vec![]), Match { r#match: None }]),
            format!("match.all[1]: {missing}"),
        ),
        (
            source(Tcp { r#match: None }),
            format!("match.source: {missing}"),
        ),
        (
            source(netmask(None, 8)),
            format!("match.source.netmask.ip: {missing}"),
        ),
        (
            source(netmask(Some([10, 0, 0, 1]), 33)),
            "match.source.netmask.mask: not the length of a prefix".to_owned(),
        ),
        (
            source(netmask(Some([10, 0, 0, 1]), 300)),
            "match.source.netmask.mask: not the length of a prefix".to_owned(),
        ),
        (
            source(port_range(0, 0)),
            "match.source.ports: not a range of ports".to_owned(),
        ),
        (
            source(port_range(80, 79)),
            "match.source.ports: not a range of ports".to_owned(),
        ),
        (
            source(port_range(1, 70_000)),
            "match.source.ports: not a range of ports".to_owned(),
        ),
        (
            http(http_match::Match::Path(StringMatch { r#match: None })),
            format!("match.http.path: {missing}"),
        ),
        (
            http(http_match::Match::Method(unknown)),
            "match.http.method: unexpected registered method: 99".to_owned(),
        ),
        (
            http(http_match::Match::Scheme(Scheme { r#type: None })),
            format!("match.http.scheme: {missing}"),
        ),
    ] {
        assert_eq!(read(condition), Err(expected));
    }
}

#[test]
fn a_limit_and_a_condition_are_required() {
    let request = |limit, r#match| ObserveRequest {
        limit,
        r#match,
        extract: None,
    };
    let invalid = |request| {
        read_request(request, String::new())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        invalid(request(0, Some(all(vec![])))),
        "limit must be positive"
    );
    assert_eq!(invalid(request(1, None)), "match: missing required field");
}

#[test]
fn conditions_are_bounded_in_number_and_depth() {
    let many = all(vec![all(vec![]); MAX_CONDITIONS]);
    assert!(read(many).unwrap_err().contains("more than 256"));
    let mut deep = all(vec![]);
    for _ in 0..MAX_DEPTH {
        deep = of(Kind::Not(Box::new(deep)));
    }
    assert!(read(deep).unwrap_err().contains("nested"));
}
