//! Filters in words.

use linkerd_profiles::{HeaderModifier, HttpFilter, InjectedFailure, PathModifier, Redirect};

/// Filters in the order in which a request meets them.
pub(super) fn described(filters: &[HttpFilter]) -> Vec<String> {
    filters.iter().map(describe).collect()
}

fn describe(filter: &HttpFilter) -> String {
    match filter {
        HttpFilter::InjectFailure(injector) => {
            let failure = match injector.failure {
                InjectedFailure::Status(status) => format!("status {}", status.as_u16()),
                InjectedFailure::Grpc(code) => format!("gRPC code {code}"),
            };
            let share = injector.ratio.as_f64() * 100.0;
            format!(
                "fails {share} % of requests with {failure}: {}",
                injector.message
            )
        }
        HttpFilter::RequestHeaders(changes) => format!("request headers: {}", headers(changes)),
        HttpFilter::ResponseHeaders(changes) => format!("response headers: {}", headers(changes)),
        HttpFilter::Redirect(redirect) => describe_redirect(redirect),
    }
}

fn headers(changes: &HeaderModifier) -> String {
    let pair = |verb: &'static str| {
        move |(name, value): &(http::HeaderName, http::HeaderValue)| {
            format!(
                "{verb} {name}: {}",
                String::from_utf8_lossy(value.as_bytes())
            )
        }
    };
    let add = changes.add.iter().map(pair("add"));
    let set = changes.set.iter().map(pair("set"));
    let remove = changes.remove.iter().map(|name| format!("remove {name}"));
    add.chain(set).chain(remove).collect::<Vec<_>>().join(", ")
}

fn describe_redirect(redirect: &Redirect) -> String {
    let parts = [
        redirect
            .scheme
            .as_ref()
            .map(|scheme| format!("scheme {scheme}")),
        redirect.host.as_ref().map(|host| format!("host {host}")),
        redirect.port.map(|port| format!("port {port}")),
        redirect.path.as_ref().map(|path| match path {
            PathModifier::Full(path) => format!("path {path}"),
            PathModifier::Prefix(prefix) => format!("path prefix {prefix}"),
        }),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!(
        "redirects with {} to {}",
        redirect.status.as_u16(),
        parts.join(", ")
    )
}
