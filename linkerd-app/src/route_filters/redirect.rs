//! Redirects (`RequestRedirect`), by the rules of the Gateway API (`HTTPRequestRedirectFilter`, `HTTPPathModifier`).

use http::{HeaderValue, Request, uri::Scheme};
use linkerd_profiles::{PathModifier, Redirect};
use linkerd_proxy_core::{Answer, Error, Reason, http::authority, subscription::RateLimit};
use std::{borrow::Cow, cell::RefCell, fmt, rc::Rc, time::Duration};
use tokio::time::Instant;

/// The log of a rule's redirects that cannot be made, one line per interval: the rule is wrong, so that each of its requests may
/// fail.
#[derive(Clone, Debug)]
pub struct RedirectLog(Rc<RefCell<RateLimit>>);

impl RedirectLog {
    fn warn<B>(&self, request: &Request<B>, why: &'static str) {
        if let Some(unreported) = self.0.borrow_mut().take(Instant::now()) {
            tracing::warn!(uri = %request.uri(), unreported, "cannot redirect: {why}");
        }
    }
}

impl Default for RedirectLog {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(RateLimit::new(WARNING_INTERVAL))))
    }
}

/// Fails with the redirect of a request, unless it leads where the request goes already.
///
/// `prefix` is the length of the prefix by which the request's route was found.
pub fn redirect<B>(
    redirect: &Redirect,
    request: &Request<B>,
    prefix: Option<usize>,
    log: &RedirectLog,
) -> Result<(), Error> {
    let invalid = |why: &'static str| {
        log.warn(request, why);
        Error::new(Reason::InvalidRedirect)
    };
    let uri = request.uri();
    let scheme = uri.scheme().unwrap_or(&Scheme::HTTP);
    let authority = authority(request).ok_or_else(|| invalid("the request names no host"))?;
    let present = Location {
        scheme,
        host: authority.host(),
        port: authority.port_u16(),
        // The path of `OPTIONS *` is no path of a location.
        path: Cow::Borrowed(if uri.path() == "*" { "/" } else { uri.path() }),
        query: uri.query(),
    };
    let location = Location {
        scheme: redirect.scheme.as_ref().unwrap_or(scheme),
        host: redirect.host.as_deref().unwrap_or(present.host),
        port: redirect.port.or(match &redirect.scheme {
            // The named scheme's own port, and not that of the request, which speaks the other scheme.
            Some(scheme) if default_port(scheme).is_some() => None,
            _ => present.port,
        }),
        path: match &redirect.path {
            None => present.path.clone(),
            Some(PathModifier::Full(path)) => Cow::Borrowed(path),
            Some(PathModifier::Prefix(new)) => {
                let prefix =
                    prefix.ok_or_else(|| invalid("its route was not found by a prefix"))?;
                Cow::Owned(with_prefix(
                    new,
                    present.path.get(prefix..).unwrap_or_default(),
                ))
            }
        },
        query: match &redirect.path {
            Some(PathModifier::Full(_)) => None,
            None | Some(PathModifier::Prefix(_)) => present.query,
        },
    };
    if location == present {
        return Ok(());
    }
    let location = HeaderValue::try_from(location.to_string());
    let location = location.map_err(|_| invalid("it leads nowhere"))?;
    Err(Error::new(Reason::Redirected).answer(Answer {
        status: Some(redirect.status),
        grpc_code: None,
        location: Some(location),
    }))
}

/// A path whose matched prefix is replaced by `new`. `rest` is the path after the prefix: empty, or from a slash on. The slash
/// between both is written once.
fn with_prefix(new: &str, rest: &str) -> String {
    let new = match rest.starts_with('/') {
        true => new.trim_end_matches('/'),
        false => new,
    };
    format!("{new}{rest}")
}

/// The URI of a request or of a redirect. Compared as clients compare: the port may be named or be the scheme's.
struct Location<'a> {
    scheme: &'a Scheme,
    host: &'a str,
    port: Option<u16>,
    path: Cow<'a, str>,
    query: Option<&'a str>,
}

impl Location<'_> {
    /// The port, unless it is the default of the scheme.
    fn port(&self) -> Option<u16> {
        self.port
            .filter(|port| Some(*port) != default_port(self.scheme))
    }

    /// The slash that the path lacks: it may be empty, or come from a rule that does not begin with one.
    fn slash(&self) -> &'static str {
        if self.path.starts_with('/') { "" } else { "/" }
    }
}

impl PartialEq for Location<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.host.eq_ignore_ascii_case(other.host)
            && self.port() == other.port()
            && (self.slash(), &self.path) == (other.slash(), &other.path)
            && self.query == other.query
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        if let Some(port) = self.port() {
            write!(f, ":{port}")?;
        }
        write!(f, "{}{}", self.slash(), self.path)?;
        match self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

const WARNING_INTERVAL: Duration = Duration::from_secs(10);

fn default_port(scheme: &Scheme) -> Option<u16> {
    match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use proptest::prelude::*;

    const NONE: Redirect = Redirect {
        scheme: None,
        host: None,
        port: None,
        path: None,
        status: StatusCode::FOUND,
    };

    /// The location, `None` if the request passes.
    fn location(rule: Redirect, uri: &str, prefix: Option<usize>) -> Option<String> {
        let request = Request::get(uri).body(()).unwrap();
        let error = redirect(&rule, &request, prefix, &RedirectLog::default()).err()?;
        let location = error.location().expect("an answer of a redirect");
        Some(location.to_str().unwrap().to_owned())
    }

    #[test]
    fn only_the_named_parts_change() {
        let host = || Some("other.test".to_owned());
        let full = |path: &str| Some(PathModifier::Full(path.to_owned()));
        for (rule, uri, expected) in [
            (NONE, "http://web/a?b", None),
            (
                Redirect {
                    scheme: Some(Scheme::HTTPS),
                    ..NONE
                },
                "http://web:8080/a?b",
                Some("https://web/a?b"),
            ),
            (
                Redirect {
                    scheme: Some(Scheme::HTTPS),
                    port: Some(8443),
                    ..NONE
                },
                "http://web:8080/a",
                Some("https://web:8443/a"),
            ),
            (
                Redirect {
                    scheme: Some(Scheme::HTTPS),
                    port: Some(80),
                    ..NONE
                },
                "http://web/a",
                Some("https://web:80/a"),
            ),
            (
                Redirect {
                    host: host(),
                    ..NONE
                },
                "http://web:8080/a",
                Some("http://other.test:8080/a"),
            ),
            (
                Redirect {
                    host: host(),
                    ..NONE
                },
                "http://web:80/a",
                Some("http://other.test/a"),
            ),
            (
                Redirect {
                    host: host(),
                    port: Some(80),
                    ..NONE
                },
                "http://web/a",
                Some("http://other.test/a"),
            ),
            (
                Redirect {
                    port: Some(80),
                    ..NONE
                },
                "http://web:8080/a",
                Some("http://web/a"),
            ),
            (
                Redirect {
                    path: full("/new"),
                    ..NONE
                },
                "http://web/a?b",
                Some("http://web/new"),
            ),
            (
                Redirect {
                    path: full("/a"),
                    ..NONE
                },
                "http://web/a",
                None,
            ),
        ] {
            assert_eq!(location(rule, uri, Some(0)).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn a_prefix_is_replaced_and_the_query_stays() {
        let rule = |new: &str| Redirect {
            path: Some(PathModifier::Prefix(new.to_owned())),
            ..NONE
        };
        for (new, uri, prefix, expected) in [
            ("/bar", "http://web/foo/x?q", 4, "http://web/bar/x?q"),
            ("/bar/", "http://web/foo/x", 4, "http://web/bar/x"),
            ("/bar", "http://web/foo", 4, "http://web/bar"),
            ("/bar", "http://web/foo/", 4, "http://web/bar/"),
            ("/bar", "http://web/foo?q", 4, "http://web/bar?q"),
            ("/", "http://web/foo/x", 4, "http://web/x"),
            ("/", "http://web/foo/", 4, "http://web/"),
            ("/", "http://web/foo", 4, "http://web/"),
            ("", "http://web/foo/x?q", 4, "http://web/x?q"),
            ("", "http://web/foo/", 4, "http://web/"),
            ("", "http://web/foo?q", 4, "http://web/?q"),
            ("bar", "http://web/foo/x", 4, "http://web/bar/x"),
            ("/bar", "http://web/x", 0, "http://web/bar/x"),
        ] {
            let location = location(rule(new), uri, Some(prefix));
            assert_eq!(location.as_deref(), Some(expected), "{uri}");
        }
        let request = Request::get("http://web/foo").body(()).unwrap();
        let error = redirect(&rule("/bar"), &request, None, &RedirectLog::default()).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidRedirect);
    }

    #[test]
    fn a_location_that_the_client_would_read_as_its_own_is_none() {
        let full = |path: &str| Some(PathModifier::Full(path.to_owned()));
        let host = |host: &str| Redirect {
            host: Some(host.to_owned()),
            ..NONE
        };
        let at = |scheme, port| Redirect {
            scheme,
            port,
            path: full("/a"),
            ..host("Web")
        };
        for (rule, uri) in [
            (host("web"), "http://web:80/a?b"),
            (host("WEB"), "http://web/a?b"),
            (at(None, Some(80)), "http://web/a"),
            (at(Some(Scheme::HTTP), None), "http://web:80/a"),
            (at(Some(Scheme::HTTPS), Some(443)), "https://web/a"),
            (at(None, None), "https://web:443/a"),
        ] {
            assert_eq!(location(rule, uri, Some(0)), None, "{uri}");
        }
    }

    proptest! {
        /// A client that follows the location of an idempotent rule is not sent anywhere else.
        #[test]
        fn the_location_of_a_rule_without_a_prefix_is_followed_once(
            https: Option<bool>,
            host in proptest::option::of("[a-z]{1,3}"),
            port in proptest::option::of(prop_oneof![Just(80), Just(443), Just(8080)]),
            path in proptest::option::of("/[a-z]{0,3}"),
            asked in "https?://[a-cA-C]{1,2}(:80|:443|:8080)?/[a-z]{0,3}([?]q)?",
        ) {
            let scheme = |https| if https { Scheme::HTTPS } else { Scheme::HTTP };
            let rule = || Redirect {
                scheme: https.map(scheme),
                host: host.clone(),
                port,
                path: path.clone().map(PathModifier::Full),
                ..NONE
            };
            if let Some(first) = location(rule(), &asked, None) {
                prop_assert_eq!(location(rule(), &first, None), None, "{}", first);
            }
        }
    }

    #[test]
    fn a_request_without_a_host_cannot_be_redirected() {
        let request = Request::get("/foo").body(()).unwrap();
        let error = redirect(&NONE, &request, None, &RedirectLog::default()).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidRedirect);
    }
}
