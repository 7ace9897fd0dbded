use super::*;
use proptest::prelude::*;

#[test]
fn a_path_has_the_readings_of_lenient_servers() {
    for (path, reading) in [
        ("/%61dmin", "/admin"),
        ("/%2561dmin", "/admin"),
        ("//admin", "/admin"),
        ("/./admin", "/admin"),
        ("/x/../admin", "/admin"),
        ("/x/%2e%2e/admin", "/admin"),
        ("/x/..;/admin", "/admin"),
        ("/x/%2e%2e%3b/admin", "/admin"),
        ("/%2fadmin", "/admin"),
        ("/admin%2fx", "/admin/x"),
        ("/admin;x", "/admin"),
        ("/admin;x/y", "/admin/y"),
        ("/\\admin", "/admin"),
        ("/x\\..\\admin", "/admin"),
        ("/x/%5c../admin", "/x/admin"),
        ("/x//../admin", "/x/admin"),
        ("/x//../admin", "/admin"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/../../admin", "/admin"),
    ] {
        let readings = path_readings(path).unwrap();
        assert!(readings.contains(reading), "{path}: {readings:?}");
    }
}

#[test]
fn a_plain_path_has_one_reading() {
    for path in [
        "/",
        "/admin",
        "/a.b/c-d_e~f",
        "/pkg.Service/Method",
        "/%20",
        "/%C3%A9",
        "/.well-known/x",
        "/a=b,c:d@e",
    ] {
        assert_eq!(path_readings(path).unwrap(), BTreeSet::new(), "{path}");
    }
}

#[test]
fn dot_segments_are_resolved_as_in_the_rfc() {
    for (path, resolved) in [
        ("/a/b/c/./../../g", "/a/g"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/..", "/"),
        ("/a/", "/a/"),
        ("/", "/"),
    ] {
        assert_eq!(without_dot_segments(path), resolved, "{path}");
    }
}

#[test]
fn a_field_has_the_reading_of_each_line_and_member_and_of_underscores() {
    let name = HeaderName::from_static("x-role");
    for (fields, expected) in [
        (&[("x-role", "user")][..], &[][..]),
        (
            &[("x-role", "user, admin")],
            &["user, admin", "user", "admin"],
        ),
        (
            &[("x-role", "user"), ("x-role", "admin")],
            &["user", "admin", "user", "admin"],
        ),
        (&[("x_role", "admin")], &["admin", "admin"]),
        (&[("x_rule", "admin")], &[]),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(value_readings(&headers, &name), expected, "{fields:?}");
    }
}

#[test]
fn a_method_in_another_case_has_the_reading_of_the_known_one() {
    let method = |text: &str| Method::from_bytes(text.as_bytes()).unwrap();
    assert_eq!(method_reading(&method("delete")), Some(Method::DELETE));
    assert_eq!(method_reading(&method("Get")), Some(Method::GET));
    for other in ["DELETE", "purge", "PURGE"] {
        assert_eq!(method_reading(&method(other)), None, "{other}");
    }
}

proptest! {
    #[test]
    fn readings_are_bounded_and_are_paths(path in "/([a-c./;\\\\]|%2[eEfF]|%25|%5c|%61|%3b){0,200}") {
        if let Some(readings) = path_readings(&path) {
            let bytes: usize = readings.iter().map(String::len).sum();
            prop_assert!(bytes <= MAX_BYTES);
            let request = Request::get("http://app/").body(()).unwrap();
            for reading in readings {
                prop_assert!(reading.starts_with('/'), "{reading}");
                prop_assert!(with_path(&request, &reading).is_some(), "{reading}");
            }
        }
    }

    #[test]
    fn short_paths_are_always_compared(path in "/([a-c./;\\\\]|%2[eEfF]|%25|%5c|%61|%3b){0,12}") {
        prop_assert!(path_readings(&path).is_some());
    }
}
