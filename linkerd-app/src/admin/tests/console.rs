//! The console: its clients and its headers.

use super::*;

const FILES: [(&str, &str); 3] = [
    ("/console", "text/html; charset=utf-8"),
    ("/console/console.css", "text/css; charset=utf-8"),
    ("/console/console.js", "text/javascript; charset=utf-8"),
];

fn with_access(console: ConsoleAccess) -> AdminContext {
    AdminContext { console, ..admin() }
}

#[tokio::test]
async fn its_files_have_a_strict_policy_and_the_tag_of_the_build() {
    with(admin(), |addr| async move {
        for (path, kind) in FILES {
            let file = get(addr, path).await;
            assert_eq!((file.status, file.kind()), (200, Some(kind)), "{path}");
            assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(file.header("cache-control"), Some("no-cache"));
            let policy = file.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'; "), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            let tag = file.header("etag").unwrap();
            let known = format!("GET {path}\r\nif-none-match: {tag}");
            let known = request(addr, &known, "").await;
            assert_eq!((known.status, known.text()), (304, ""), "{path}");
            let posted = request(addr, &format!("POST {path}"), "").await;
            assert_eq!(posted.status, 405, "{path}");
        }
    })
    .await;
}

#[tokio::test]
async fn its_setting_decides_who_gets_it() {
    let (local, remote) = ("127.0.0.1", "10.0.0.7");
    for (access, peer, status) in [
        (ConsoleAccess::Loopback, local, 200),
        (ConsoleAccess::Loopback, remote, 403),
        (ConsoleAccess::All, remote, 200),
        (ConsoleAccess::Off, local, 404),
    ] {
        for (path, _) in FILES {
            let file = from(peer, with_access(access), &format!("GET {path}")).await;
            assert_eq!(file.status, status, "{access:?} {peer} {path}");
        }
    }
    for (access, status) in [(ConsoleAccess::Loopback, 403), (ConsoleAccess::All, 200)] {
        let state = from(remote, with_access(access), "GET /state").await;
        assert_eq!(state.status, status, "{access:?}");
    }
}

#[tokio::test]
async fn another_sites_page_does_not_get_it() {
    for headers in ["host: evil.example", "sec-fetch-site: cross-site"] {
        let head = format!("GET /console\r\n{headers}");
        let refused = from("127.0.0.1", with_access(ConsoleAccess::All), &head).await;
        assert_eq!(refused.status, 403, "{headers}");
    }
}

#[tokio::test]
async fn the_index_lists_it_unless_it_is_off() {
    for (access, listed) in [(ConsoleAccess::Loopback, true), (ConsoleAccess::Off, false)] {
        let index = from("127.0.0.1", with_access(access), "GET /").await;
        assert_eq!(index.text().contains("/console "), listed, "{access:?}");
        assert!(!index.text().contains("console.js"));
    }
}

/// The page must not depend on anything that its policy forbids.
#[test]
fn its_files_have_no_inline_script_and_parse_no_html() {
    let page = include_str!("../console/console.html");
    for forbidden in [
        "<style",
        "style=",
        " onclick",
        "javascript:",
        "http:",
        "https:",
    ] {
        let page = page.replace("placeholder=\"http://web/path\"", "");
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("<script src=\"/console/console.js\" type=\"module\"></script>"));
    for (name, script) in crate::admin::console::scripts() {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http:",
            "https:",
        ] {
            let script = script.replace("\"http://\"", "");
            let script = script.replace("http://www.w3.org/2000/svg", "");
            assert!(!script.contains(forbidden), "{name}: {forbidden}");
        }
    }
}
