//! Filters in words.

use linkerd_profiles::{HeaderModifier, HttpFilter, InjectedFailure, PathModifier, Redirect};
use serde_json::{Value, json};

/// Filters in the order in which a request meets them.
pub(super) fn described(filters: &[HttpFilter]) -> Vec<String> {
    filters.iter().map(describe).collect()
}

/// The share of requests that filters answer in place of a backend; `null` if they pass all on.
pub(super) fn answers(filters: &[HttpFilter]) -> Value {
    let failed = filters.iter().fold(0.0, |failed, filter| match filter {
        HttpFilter::InjectFailure(injector) => failed + (1.0 - failed) * injector.ratio.as_f64(),
        _ => failed,
    });
    let is_redirect = |filter: &HttpFilter| matches!(filter, HttpFilter::Redirect(_));
    match (filters.iter().any(is_redirect), failed > 0.0) {
        (false, false) => Value::Null,
        (redirects, _) => json!({ "failed_share": failed, "redirects": redirects }),
    }
}

/// Whether filters answer every request, so that no backend gets one.
pub(super) fn answer_all(filters: &[HttpFilter]) -> bool {
    filters.iter().any(|filter| match filter {
        HttpFilter::InjectFailure(injector) => injector.ratio.as_f64() >= 1.0,
        HttpFilter::Redirect(_) => true,
        HttpFilter::RequestHeaders(_) | HttpFilter::ResponseHeaders(_) => false,
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_profiles::{FailureInjector, Ratio};

    fn fails(numerator: u32) -> HttpFilter {
        HttpFilter::InjectFailure(FailureInjector {
            failure: InjectedFailure::Grpc(14),
            message: String::new(),
            ratio: Ratio::new(numerator, 2).unwrap(),
        })
    }

    #[test]
    fn the_share_that_filters_fail_is_that_of_all_of_them() {
        let headers = HttpFilter::RequestHeaders(HeaderModifier::default());
        assert_eq!(answers(std::slice::from_ref(&headers)), Value::Null);
        assert_eq!(answers(&[fails(0)]), Value::Null);
        for (filters, share, all) in [
            (vec![fails(1), headers], 0.5, false),
            (vec![fails(1), fails(1)], 0.75, false),
            (vec![fails(1), fails(2)], 1.0, true),
        ] {
            assert_eq!(answers(&filters)["failed_share"], share);
            assert_eq!(answer_all(&filters), all);
        }
    }
}
