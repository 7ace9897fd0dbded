//! The first part of a condition that a request does not meet.

use super::request_match::{GrpcMatch, HeaderMatch, HttpMatch, QueryMatch, RequestMatch};
use crate::profile::ProfileMatch;
use http::{Method, Request};
use std::fmt;

/// The first part of a condition that a request does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionMiss {
    /// The part, such as `path` or `header x-a`.
    pub part: String,
    /// The value that the part requires.
    pub expected: String,
    /// The value that the request has.
    pub actual: String,
}

impl ConditionMiss {
    /// The first part that is not met. `None` if the request meets the condition.
    pub fn of<B>(condition: &RequestMatch, request: &Request<B>) -> Option<Self> {
        match condition {
            RequestMatch::Http(condition) => of_http(condition, request),
            RequestMatch::Grpc(condition) => of_grpc(condition, request),
            RequestMatch::Every => None,
            RequestMatch::Profile(route) => of_profile(&route.condition, request),
        }
    }

    fn new(
        part: impl fmt::Display,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Self {
        Self {
            part: shortened(part),
            expected: shortened(expected),
            actual: shortened(actual),
        }
    }
}

impl fmt::Display for ConditionMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            part,
            expected,
            actual,
        } = self;
        write!(f, "{part} must be {expected}, and is {actual}")
    }
}

fn of_http<B>(condition: &HttpMatch, request: &Request<B>) -> Option<ConditionMiss> {
    let uri = request.uri();
    if let Some(path) = &condition.path
        && !path.is_met(uri.path())
    {
        return Some(ConditionMiss::new("path", path, uri.path()));
    }
    of_method(condition.method.as_ref(), request)
        .or_else(|| of_headers(&condition.headers, request))
        .or_else(|| {
            let misses = |parameter: &&QueryMatch| !parameter.is_met(uri.query());
            let parameter = condition.query.iter().find(misses)?;
            let values = parameter.values_of(uri.query()).collect();
            Some(ConditionMiss::new(
                format_args!("query parameter {}", parameter.name),
                &parameter.value,
                listed(values),
            ))
        })
}

fn of_grpc<B>(condition: &GrpcMatch, request: &Request<B>) -> Option<ConditionMiss> {
    let path = request.uri().path();
    let names = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let Some((service, method)) = names.filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
        return Some(ConditionMiss::new("path", "/SERVICE/METHOD", path));
    };
    if let Some(miss) = of_method(Some(&Method::POST), request) {
        return Some(miss);
    }
    for (part, expected, actual) in [
        ("gRPC service", &condition.service, service),
        ("gRPC method", &condition.method, method),
    ] {
        if let Some(expected) = expected
            && expected != actual
        {
            return Some(ConditionMiss::new(part, expected, actual));
        }
    }
    of_headers(&condition.headers, request)
}

fn of_method<B>(expected: Option<&Method>, request: &Request<B>) -> Option<ConditionMiss> {
    let expected = expected.filter(|method| *method != request.method())?;
    Some(ConditionMiss::new("method", expected, request.method()))
}

fn of_headers<B>(headers: &[HeaderMatch], request: &Request<B>) -> Option<ConditionMiss> {
    let header = headers.iter().find(|header| !header.is_met(request))?;
    let values = request.headers().get_all(&header.name).iter();
    let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Some(ConditionMiss::new(
        format_args!("header {}", header.name),
        &header.value,
        listed(values.collect()),
    ))
}

fn of_profile<B>(condition: &ProfileMatch, request: &Request<B>) -> Option<ConditionMiss> {
    if condition.is_met(request) {
        return None;
    }
    let (method, path) = (request.method(), request.uri().path());
    Some(match condition {
        ProfileMatch::All(all) => all.iter().find_map(|one| of_profile(one, request))?,
        ProfileMatch::Any(any) => match &any[..] {
            [only] => of_profile(only, request)?,
            _ => ConditionMiss::new("request", condition, format_args!("{method} {path}")),
        },
        ProfileMatch::Not(_) => {
            ConditionMiss::new("request", condition, format_args!("{method} {path}"))
        }
        ProfileMatch::Path(pattern) => {
            ConditionMiss::new("path", format_args!("a match of {pattern}"), path)
        }
        ProfileMatch::Method(expected) => ConditionMiss::new("method", expected, method),
    })
}

/// The values of a header or parameter.
fn listed(values: Vec<String>) -> String {
    match &values[..] {
        [] => "absent".to_owned(),
        [only] => format!("{only:?}"),
        values => format!("{values:?}"),
    }
}

/// A text, cut at [`MAX_SHOWN`].
fn shortened(text: impl fmt::Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Characters of a value in an explanation.
const MAX_SHOWN: usize = 200;
