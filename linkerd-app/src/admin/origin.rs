//! Refuses requests that a browser makes for another site's page, on the paths for this host.
//!
//! A browser on this host reaches the admin port as local tools do. A page of another site can make it send requests
//! there, and can read the answers if its own name resolves to this host (DNS rebinding).

use super::reply::{self, Reply};
use http::{HeaderMap, Request, StatusCode, header, uri::Authority};
use std::net::IpAddr;

/// Refuses a request with a foreign `Host`, `Origin` or `Sec-Fetch-Site`.
pub(super) fn refuse_foreign<B>(request: &Request<B>, hostname: Option<&str>) -> Option<Reply> {
    let problem = problem(request, hostname)?;
    let text =
        format!("This path is for tools on this host, not for pages of other sites: {problem}.\n");
    Some(reply::text(StatusCode::FORBIDDEN, text))
}

/// The reason to refuse a request from another site's page, for other servers on this host; `None` if it is let in.
pub(crate) fn refuse_foreign_page<B>(request: &Request<B>) -> Option<String> {
    let problem = problem(request, hostname().as_deref())?;
    Some(format!(
        "This is not for pages of other sites: {problem}.\n"
    ))
}

/// The name of this machine.
pub(crate) fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn problem<B>(request: &Request<B>, hostname: Option<&str>) -> Option<String> {
    let headers = request.headers();
    let hosts: Vec<_> = hosts(request).collect();
    if let Some(host) = hosts.iter().find(|host| !is_own(host, hostname)) {
        let name = hostname.unwrap_or("this machine's name");
        return Some(format!(
            "the Host {host:?} is neither an IP address nor localhost nor {name}"
        ));
    }
    for origin in texts(headers, header::ORIGIN) {
        let same = hosts.iter().any(|host| is_of(&origin, host));
        if !same {
            return Some(format!("the Origin {origin:?} is not this server's"));
        }
    }
    let texts = |name| texts(headers, header::HeaderName::from_static(name)).into_iter();
    // A page of another port of this host may link to a page here, and load nothing.
    let is_link = texts("sec-fetch-dest").any(|dest| dest.eq_ignore_ascii_case("document"));
    let is_foreign = |site: &String| match &*site.to_ascii_lowercase() {
        "cross-site" => true,
        "same-site" => !is_link,
        _ => false,
    };
    let mut sites = texts("sec-fetch-site");
    sites
        .find(is_foreign)
        .map(|site| format!("the request comes from another site (Sec-Fetch-Site: {site})"))
}

/// The requested host names: one, unless a client tries to confuse the server.
fn hosts<B>(request: &Request<B>) -> impl Iterator<Item = String> {
    let authority = request.uri().authority().map(ToString::to_string);
    authority
        .into_iter()
        .chain(texts(request.headers(), header::HOST))
}

fn texts(headers: &HeaderMap, name: header::HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

/// Whether a name is this host's for certain: an address needs no DNS, and `localhost` is this host everywhere.
fn is_own(host: &str, hostname: Option<&str>) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    // User information before an @ is no part of a host, and no tool writes it there (RFC 9110, section 4.2.4).
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    // A parser may take the address in brackets for the host, whatever follows it.
    let port = &authority.as_str()[name.len()..];
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    if bare.unwrap_or(name).parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_hostname = hostname.is_some_and(|own| own.eq_ignore_ascii_case(&name));
    name == "localhost" || name.ends_with(".localhost") || is_hostname
}

/// Whether an origin is the server itself, under the requested host name.
fn is_of(origin: &str, host: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| {
        origin
            .strip_prefix(scheme)
            .is_some_and(|origin| origin.eq_ignore_ascii_case(host))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        problem(&request.body(()).unwrap(), Some("web-1"))
    }

    #[test]
    fn names_that_only_this_host_has_are_served() {
        for host in [
            "127.0.0.1:4191",
            "10.0.0.7",
            "[::1]:4191",
            "[fd00::7]",
            "localhost:4191",
            "LocalHost.",
            "proxy.localhost:80",
            "web-1:4191",
            "WEB-1.",
        ] {
            assert_eq!(refused("/state", &[("host", host)]), None, "{host}");
            assert_eq!(
                refused(&format!("http://{host}/state"), &[]),
                None,
                "{host}"
            );
        }
        assert_eq!(refused("/state", &[]), None, "no browser leaves it out");
    }

    #[test]
    fn a_name_that_a_page_could_have_made_resolve_to_this_host_is_refused() {
        for host in [
            "evil.example:4191",
            "localhost.evil.example",
            "[::1].evil.example",
            "[::1]evil",
            "[::1].evil:4191",
            "notlocalhost",
            "web-1.evil.example",
            "127.0.0.1.evil.example",
            "0x7f.1",
            "a b",
            "",
        ] {
            let problem = refused("/state", &[("host", host)]).expect(host);
            assert!(problem.contains(&format!("{host:?}")), "{problem}");
        }
        assert!(refused("http://evil.example/", &[("host", "localhost")]).is_some());
        assert!(refused("/", &[("host", "localhost"), ("host", "evil.example")]).is_some());
    }

    #[test]
    fn a_page_of_another_site_is_refused_and_one_of_this_server_is_not() {
        let host = ("host", "localhost:4191");
        let with = |name, value| refused("/state", &[host, (name, value)]);
        for origin in [
            "http://evil.example",
            "http://localhost",
            "http://localhost:3000",
            "http://localhost:4191.evil.example",
            "null",
            "",
        ] {
            assert!(with("origin", origin).is_some(), "{origin}");
        }
        assert_eq!(with("origin", "http://localhost:4191"), None);
        assert!(with("sec-fetch-site", "cross-site").is_some());
        assert!(with("sec-fetch-site", "same-site").is_some());
        for site in ["same-origin", "none"] {
            assert_eq!(with("sec-fetch-site", site), None, "{site}");
        }
        let link = [
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(
            refused("/", &[("host", "localhost"), link[0], link[1]]),
            None
        );
    }
}
