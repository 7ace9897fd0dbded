use super::*;
use http::Method;

fn rule(name: &str, hosts: &[&str], matches: Vec<RequestMatch>) -> RouteRule {
    let hosts = hosts.iter().map(|host| match host.strip_prefix("*.") {
        Some(suffix) => HostMatch::Suffix(suffix.rsplit('.').map(str::to_owned).collect()),
        None => HostMatch::Exact((*host).to_owned()),
    });
    RouteRule {
        hosts: hosts.collect(),
        matches,
        ..RouteRule::for_all(Arc::new(Meta::new_default(name)), Distribution::Empty)
    }
}

fn path(path: PathMatch) -> Vec<RequestMatch> {
    vec![RequestMatch::Http(HttpMatch {
        path: Some(path),
        ..HttpMatch::default()
    })]
}

fn prefix(text: &str) -> Vec<RequestMatch> {
    path(PathMatch::Prefix(text.to_owned()))
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

/// The name of the rule that is found.
fn found<'a>(table: &'a RouteTable, request: &Request<()>) -> Option<&'a str> {
    let found = table.find(request)?;
    Some(table.rules()[found.index].meta.name())
}

#[test]
fn the_most_specific_host_that_has_a_rule_for_the_request_decides() {
    let table = RouteTable::new(vec![
        rule("any", &[], Vec::new()),
        rule("suffix", &["*.test"], Vec::new()),
        rule("exact", &["web.test"], prefix("/only")),
    ]);
    assert_eq!(found(&table, &get("http://web.test/only/x")), Some("exact"));
    assert_eq!(found(&table, &get("http://web.test/")), Some("suffix"));
    assert_eq!(found(&table, &get("http://other.org/only")), Some("any"));
    assert_eq!(found(&table, &get("/no-host")), Some("any"));
}

#[test]
fn the_host_may_come_from_its_header() {
    let table = RouteTable::new(vec![rule("exact", &["web.test"], Vec::new())]);
    for (host, is_found) in [
        ("web.test", true),
        ("WEB.test.:8080", true),
        ("web.test:80", true),
        ("web.test.org", false),
        ("[::1]:80", false),
    ] {
        let mut request = get("/");
        let value = host.parse().unwrap();
        request.headers_mut().insert(http::header::HOST, value);
        assert_eq!(found(&table, &request).is_some(), is_found, "{host}");
    }
}

#[test]
fn two_hosts_are_ambiguous_where_the_host_decides() {
    let by_host = RouteTable::new(vec![rule("exact", &["web.test"], Vec::new())]);
    let for_all = RouteTable::new(vec![rule("any", &[], prefix("/a"))]);
    for (target, host, is_ambiguous) in [
        ("http://web.test/", "web.test", false),
        ("http://WEB.test:80/", "web.test.", false),
        ("http://web.test/", "admin.test", true),
        ("http://web.test/", "\u{e9}", true),
        ("http://web.test/", "", true),
        ("/", "admin.test", false),
    ] {
        let mut request = get(target);
        let value = http::HeaderValue::from_bytes(host.as_bytes()).unwrap();
        request.headers_mut().insert(http::header::HOST, value);
        assert_eq!(
            by_host.is_ambiguous(&request),
            is_ambiguous,
            "{target} {host}"
        );
        assert!(!for_all.is_ambiguous(&request));
    }
    assert!(!by_host.is_ambiguous(&get("http://web.test/")));
}

#[test]
fn the_longest_path_wins_then_headers_parameters_and_method_and_of_equals_the_first() {
    let http = |headers, query, method| {
        let header = |index| HeaderMatch {
            name: http::HeaderName::try_from(format!("x-{index}")).unwrap(),
            value: ValueMatch::Exact(b"1".to_vec()),
        };
        let parameter = |index| QueryMatch {
            name: format!("q{index}"),
            value: ValueMatch::Exact("1".to_owned()),
        };
        vec![RequestMatch::Http(HttpMatch {
            path: Some(PathMatch::Prefix("/a".to_owned())),
            headers: (0..headers).map(header).collect(),
            query: (0..query).map(parameter).collect(),
            method,
        })]
    };
    let table = RouteTable::new(vec![
        rule("all", &[], Vec::new()),
        rule("prefix", &[], prefix("/a")),
        rule("prefix again", &[], prefix("/a/")),
        rule("method", &[], http(0, 0, Some(Method::POST))),
        rule("parameters", &[], http(0, 2, None)),
        rule("header", &[], http(1, 0, None)),
        rule("longer", &[], prefix("/a/b")),
        rule("exact", &[], path(PathMatch::Exact("/a/b".to_owned()))),
        rule(
            "regex",
            &[],
            path(PathMatch::Regex(Pattern::new("/a/c+").unwrap())),
        ),
    ]);
    let request = |method: Method, uri: &str, header: bool| {
        let mut request = Request::builder().method(method).uri(uri);
        if header {
            request = request.header("x-0", "1");
        }
        request.body(()).unwrap()
    };
    for (method, uri, header, expected) in [
        (Method::GET, "/", false, "all"),
        (Method::GET, "/ab", false, "all"),
        (Method::GET, "/a", false, "prefix"),
        (Method::GET, "/a/x", false, "prefix"),
        (Method::POST, "/a/x", false, "method"),
        (Method::POST, "/a/x?q0=1&q1=1", false, "parameters"),
        (Method::POST, "/a/x?q0=1&q1=1", true, "header"),
        (Method::GET, "/a/b", true, "exact"),
        (Method::GET, "/a/b/c", true, "longer"),
        (Method::GET, "/a/ccc", true, "regex"),
    ] {
        let request = request(method, uri, header);
        assert_eq!(found(&table, &request), Some(expected), "{request:?}");
    }
}

/// Every pair of kinds of conditions, in either order of the rules, of requests that meet both.
#[test]
fn of_two_conditions_the_more_specific_one_takes_the_request_whatever_their_order() {
    let header = || HeaderMatch {
        name: http::HeaderName::from_static("x-a"),
        value: ValueMatch::Exact(b"1".to_vec()),
    };
    let grpc = |service: &str, method: &str, headers| {
        let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        RequestMatch::Grpc(GrpcMatch {
            service: named(service),
            method: named(method),
            headers,
        })
    };
    let http = |path, headers, query, method| {
        RequestMatch::Http(HttpMatch {
            path,
            headers,
            query,
            method,
        })
    };
    let exact = || PathMatch::Exact("/pkg.Svc/Get".to_owned());
    let prefix = |text: &str| Some(PathMatch::Prefix(text.to_owned()));
    let parameter = || QueryMatch {
        name: "q".to_owned(),
        value: ValueMatch::Exact("1".to_owned()),
    };
    // The least specific first.
    let of_grpc = vec![
        RequestMatch::Every,
        grpc("", "", vec![header()]),
        grpc("", "Get", vec![]),
        grpc("", "Get", vec![header()]),
        grpc("pkg.Svc", "", vec![]),
        grpc("pkg.Svc", "", vec![header()]),
        grpc("pkg.Svc", "Get", vec![]),
        grpc("pkg.Svc", "Get", vec![header()]),
    ];
    let of_http = vec![
        http(None, vec![], vec![], None),
        http(None, vec![], vec![], Some(Method::POST)),
        http(None, vec![], vec![parameter()], None),
        http(None, vec![header()], vec![], None),
        http(prefix("/pkg.Svc"), vec![], vec![], None),
        http(prefix("/pkg.Svc"), vec![], vec![], Some(Method::POST)),
        http(Some(exact()), vec![], vec![], None),
        http(Some(exact()), vec![header()], vec![], None),
    ];
    let request = Request::post("http://web/pkg.Svc/Get?q=1").header("x-a", "1");
    let request = request.body(()).unwrap();
    for kinds in [of_grpc, of_http] {
        for (index, less) in kinds.iter().enumerate() {
            for more in &kinds[index + 1..] {
                let less = || rule("less", &[], vec![less.clone()]);
                let more = || rule("more", &[], vec![more.clone()]);
                for rules in [vec![less(), more()], vec![more(), less()]] {
                    let table = RouteTable::new(rules);
                    assert_eq!(found(&table, &request), Some("more"), "{table:?}");
                }
            }
        }
    }
}

#[test]
fn the_matched_prefix_is_told() {
    let table = RouteTable::new(vec![
        rule("prefix", &[], prefix("/foo/")),
        rule("exact", &[], path(PathMatch::Exact("/bar".to_owned()))),
    ]);
    assert_eq!(table.find(&get("/foo/x")).unwrap().prefix, Some(4));
    assert_eq!(table.find(&get("/bar")).unwrap().prefix, None);
    assert_eq!(table.find(&get("/")), None);
}

#[test]
fn without_conditions_the_only_rule_is_for_everything() {
    let name = || Some("only");
    let only = RouteTable::new(vec![rule("only", &[], prefix("/"))]);
    assert_eq!(found(&only, &get("/x")), name());
    assert_eq!(found(&RouteTable::default(), &get("/x")), None);
}
