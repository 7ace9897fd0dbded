use super::*;

fn parsed(query: &str) -> Result<ExplainQuery, String> {
    let fields = QueryFields::of_parameters(query).and_then(|fields| fields.check());
    fields.map_err(|error| error.to_string())
}

#[test]
fn the_target_is_the_authority_of_the_url_unless_it_is_named() {
    for (query, target) in [
        ("url=http://web/a", "web:80"),
        ("url=web", "web:80"),
        ("url=Web.:8080/a", "web:8080"),
        ("url=http://[::1]:81/", "[::1]:81"),
        ("url=http://web/&target=10.0.0.1:90", "10.0.0.1:90"),
    ] {
        let query = parsed(query).unwrap();
        assert_eq!(query.target.to_string(), target);
        assert_eq!((query.method, query.version), (Method::GET, None));
    }
}

#[test]
fn a_host_of_its_own_comes_before_that_of_the_url() {
    let host = |query: &str| {
        let request = parsed(query).unwrap().request(Version::HTTP_11);
        linkerd_profiles::request_host(&request).map(str::to_owned)
    };
    assert_eq!(host("url=http://web/a").as_deref(), Some("web"));
    let named = "url=http://web/a&header=Host:%20shop.test:80";
    assert_eq!(host(named).as_deref(), Some("shop.test"));
}

#[test]
fn errors_name_the_parameter_and_the_fix() {
    let long = format!("url=http://web/{}", "&header=a:b".repeat(101));
    for (query, parts) in [
        ("", ["url: it is missing", "add url=http://web/path"]),
        (
            "url=https://web/",
            ["url: its scheme is not http", "use http://"],
        ),
        (
            "url=http:///a",
            ["url: ", "for example url=http://web/path"],
        ),
        ("url=http://web:99999/", ["url: ", "for example url="]),
        (
            "url=web&method=G%20T",
            ["method: \"G T\" is no method", "method=GET"],
        ),
        (
            "url=web&header=x",
            ["header: \"x\" is no header", "header=x-version:2"],
        ),
        (
            "url=web&target=web",
            ["target: \"web\" is no target", "10.0.0.1:80"],
        ),
        (
            "url=web&version=3",
            ["version: \"3\" is no version", "use 1 or 2"],
        ),
        ("url=web&url=web", ["url: it is there twice", "keep one"]),
        (
            "uri=web",
            ["parameter: \"uri\" is not known", "use method, url"],
        ),
        (&*long, ["header: there are 101", "at most 100"]),
    ] {
        let error = parsed(query).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{query}: {error}");
        }
    }
    for body in ["", "[]", r#"{"url": 1}"#, r#"{"headers": {"a": 1}}"#] {
        assert!(QueryFields::of_json(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn parameters_and_json_say_the_same() {
    let fields = QueryFields {
        method: Some("PUT".to_owned()),
        url: Some("http://web/a b?c=d&e".to_owned()),
        headers: vec!["x-a: 1&2".to_owned(), "x-b:+".to_owned()],
        target: Some("10.0.0.1:80".to_owned()),
        version: Some("2".to_owned()),
        discover: Some("1".to_owned()),
        port: Some("8080".to_owned()),
        client: Some("10.0.0.7".to_owned()),
        identity: Some("web.test".to_owned()),
    };
    let parameters = QueryFields::of_parameters(&fields.to_parameters());
    assert_eq!(parameters.as_ref(), Ok(&fields));
    let json = r#"{"method": "PUT", "url": "http://web/a b?c=d&e", "target": "10.0.0.1:80", "version": 2,
        "discover": 1, "port": 8080, "client": "10.0.0.7", "identity": "web.test",
        "header": ["x-a: 1&2", "x-b:+"]}"#;
    assert_eq!(QueryFields::of_json(json.as_bytes()), Ok(fields));
}
