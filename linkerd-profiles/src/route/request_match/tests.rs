use super::*;

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn meets(condition: HttpMatch, request: &Request<()>) -> bool {
    RequestMatch::Http(condition).meets(request).is_some()
}

#[test]
fn a_prefix_ends_with_a_segment() {
    for (prefix, path, length) in [
        ("/foo", "/foo", Some(4)),
        ("/foo", "/foo/", Some(4)),
        ("/foo/", "/foo", Some(4)),
        ("/foo", "/foo/bar", Some(4)),
        ("/foo", "/foobar", None),
        ("/", "/foo", Some(0)),
        ("", "/foo", Some(0)),
        ("/foo//", "/foo/x", Some(4)),
        ("/FOO", "/foo", None),
    ] {
        assert_eq!(prefix_length(prefix, path), length, "{prefix} of {path}");
    }
}

#[test]
fn every_header_and_parameter_must_meet_one_of_its_conditions() {
    let header = |name: &'static str, value| HeaderMatch {
        name: HeaderName::from_static(name),
        value,
    };
    let mut request = get("/?a=1&b=x+y&b=%7E&c");
    for value in ["one", "two"] {
        request.headers_mut().append("x-a", value.parse().unwrap());
    }
    let bytes = http::HeaderValue::from_bytes(b"\xff").unwrap();
    request.headers_mut().append("x-b", bytes);
    let regex = |text: &str| Pattern::new(text).unwrap();
    for (condition, is_met) in [
        (header("x-a", ValueMatch::Exact(b"two".to_vec())), true),
        (header("x-a", ValueMatch::Exact(b"tw".to_vec())), false),
        (header("x-a", ValueMatch::Regex(regex("t.*"))), true),
        (header("x-a", ValueMatch::Regex(regex("t"))), false),
        (header("x-b", ValueMatch::Exact(b"\xff".to_vec())), true),
        (header("x-b", ValueMatch::Regex(regex(".*"))), false),
        (header("x-c", ValueMatch::Regex(regex(".*"))), false),
    ] {
        let headers = vec![condition.clone()];
        let condition = HttpMatch {
            headers,
            ..HttpMatch::default()
        };
        assert_eq!(meets(condition.clone(), &request), is_met, "{condition:?}");
    }
    for (name, value, is_met) in [
        ("a", ValueMatch::Exact("1".to_owned()), true),
        ("b", ValueMatch::Exact("x y".to_owned()), true),
        ("b", ValueMatch::Exact("~".to_owned()), true),
        ("c", ValueMatch::Exact(String::new()), true),
        ("d", ValueMatch::Exact(String::new()), false),
        ("a", ValueMatch::Regex(regex("[0-9]")), true),
        ("a", ValueMatch::Regex(regex("[a-z]")), false),
    ] {
        let name = name.to_owned();
        let condition = HttpMatch {
            query: vec![QueryMatch { name, value }],
            ..HttpMatch::default()
        };
        assert_eq!(meets(condition.clone(), &request), is_met, "{condition:?}");
    }
}

#[test]
fn grpc_is_posted_to_a_service_and_a_method() {
    let condition = |service: &str, method: &str| GrpcMatch {
        service: Some(service.to_owned()).filter(|name| !name.is_empty()),
        method: Some(method.to_owned()).filter(|name| !name.is_empty()),
        headers: Vec::new(),
    };
    let post = |path: &str| Request::post(path).body(()).unwrap();
    let rank = |condition: GrpcMatch, request: &Request<()>| {
        let met = RequestMatch::Grpc(condition).meets(request);
        met.map(|met| (met.rank[0], met.rank[1]))
    };
    let request = post("/pkg.Svc/Get");
    assert_eq!(rank(condition("", ""), &request), Some((0, 0)));
    assert_eq!(rank(condition("pkg.Svc", ""), &request), Some((7, 0)));
    assert_eq!(rank(condition("", "Get"), &request), Some((0, 3)));
    assert_eq!(rank(condition("pkg.Svc", "Get"), &request), Some((7, 3)));
    assert_eq!(rank(condition("pkg.Svc", "Put"), &request), None);
    assert_eq!(rank(condition("pkg", ""), &request), None);
    for other in [
        get("/pkg.Svc/Get"),
        post("/pkg.Svc"),
        post("/"),
        post("//Get"),
    ] {
        assert_eq!(rank(condition("", ""), &other), None, "{other:?}");
    }
}
