//! Redirects (`RequestRedirect`).

use http::{HeaderValue, Request, uri::Scheme};
use linkerd_profiles::{PathModifier, Redirect};
use linkerd_proxy_core::{Answer, Error, Reason, http::authority, subscription::RateLimit};
use std::{cell::RefCell, fmt::Write, rc::Rc, time::Duration};
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
    let scheme = request.uri().scheme().unwrap_or(&Scheme::HTTP);
    let authority = authority(request).ok_or_else(|| invalid("the request names no host"))?;
    let uri = request.uri();
    let path_and_query = uri.path_and_query().map_or("/", |it| it.as_str());
    let present = format!("{scheme}://{authority}{path_and_query}");

    let scheme = redirect.scheme.as_ref().unwrap_or(scheme);
    let mut location = format!("{scheme}://");
    location += redirect.host.as_deref().unwrap_or(authority.host());
    let port = redirect.port.or(authority.port_u16());
    // If the rule names host and port, the port stays even if it is the default of the scheme.
    let is_named = redirect.host.is_some() && redirect.port.is_some();
    if let Some(port) = port.filter(|port| is_named || Some(*port) != default_port(scheme)) {
        let _ = write!(location, ":{port}");
    }
    match &redirect.path {
        None => location += path_and_query,
        Some(PathModifier::Full(path)) => location += path,
        Some(PathModifier::Prefix(new)) => {
            let prefix = prefix.ok_or_else(|| invalid("its route was not found by a prefix"))?;
            let rest = path_and_query.get(prefix..).unwrap_or_default();
            location += new;
            if !rest.is_empty() && !rest.starts_with(['/', '?']) {
                location.push('/');
            }
            location += rest;
        }
    }
    if location == present {
        return Ok(());
    }
    let location = HeaderValue::try_from(location).map_err(|_| invalid("it leads nowhere"))?;
    Err(Error::new(Reason::Redirected).answer(Answer {
        status: Some(redirect.status),
        grpc_code: None,
        location: Some(location),
    }))
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
                Some("https://web:8080/a?b"),
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
                Some("http://other.test:80/a"),
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
            ("/bar/", "http://web/foo/x", 4, "http://web/bar//x"),
            ("/bar", "http://web/foo", 4, "http://web/bar"),
            ("/bar", "http://web/foo?q", 4, "http://web/bar?q"),
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
    fn a_request_without_a_host_cannot_be_redirected() {
        let request = Request::get("/foo").body(()).unwrap();
        let error = redirect(&NONE, &request, None, &RedirectLog::default()).unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidRedirect);
    }
}
