//! Conditions in words.

use super::{
    HostMatch,
    request_match::{GrpcMatch, HeaderMatch, HttpMatch, PathMatch, RequestMatch, ValueMatch},
};
use crate::profile::ProfileMatch;
use std::fmt::{self, Display, Formatter};

impl Display for HostMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Suffix(labels) => {
                f.write_str("*")?;
                labels
                    .iter()
                    .rev()
                    .try_for_each(|label| write!(f, ".{label}"))
            }
        }
    }
}

impl Display for RequestMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(condition) => condition.fmt(f),
            Self::Grpc(condition) => condition.fmt(f),
            Self::Every => f.write_str("every request"),
            Self::Profile(route) => route.condition.fmt(f),
        }
    }
}

impl Display for HttpMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let method = self.method.iter().map(|method| format!("method {method}"));
        let path = self.path.iter().map(|path| format!("path {path}"));
        let query = self.query.iter();
        let query = query.map(|one| format!("query parameter {} {}", one.name, one.value));
        let parts = method
            .chain(path)
            .chain(headers(&self.headers))
            .chain(query);
        joined(f, parts, " and ", "every request")
    }
}

impl Display for GrpcMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let service = self.service.iter().map(|name| format!("service {name}"));
        let method = self.method.iter().map(|name| format!("method {name}"));
        let parts = service.chain(method).chain(headers(&self.headers));
        joined(f, parts, " and ", "every gRPC request")
    }
}

impl Display for PathMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => f.write_str(path),
            Self::Prefix(prefix) => write!(f, "{prefix} or below"),
            Self::Regex(pattern) => write!(f, "a match of {pattern}"),
        }
    }
}

impl Display for ValueMatch<String> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(value) => write!(f, "{value:?}"),
            Self::Regex(pattern) => write!(f, "a match of {pattern}"),
        }
    }
}

impl Display for ValueMatch<Vec<u8>> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(value) => write!(f, "{:?}", String::from_utf8_lossy(value)),
            Self::Regex(pattern) => write!(f, "a match of {pattern}"),
        }
    }
}

impl Display for ProfileMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(all) => joined(f, all.iter().map(nested), " and ", "every request"),
            Self::Any(any) => joined(f, any.iter().map(nested), " or ", "no request"),
            Self::Not(condition) => write!(f, "not {}", nested(condition)),
            Self::Path(pattern) => write!(f, "path matching {pattern}"),
            Self::Method(method) => write!(f, "method {method}"),
        }
    }
}

fn headers(headers: &[HeaderMatch]) -> impl Iterator<Item = String> {
    let headers = headers.iter();
    headers.map(|header| format!("header {} {}", header.name, header.value))
}

/// A nested condition, in parentheses if it has several parts.
fn nested(condition: &ProfileMatch) -> String {
    match condition {
        ProfileMatch::All(parts) | ProfileMatch::Any(parts) if parts.len() > 1 => {
            format!("({condition})")
        }
        _ => condition.to_string(),
    }
}

/// The parts of a condition; `none` if there are none.
fn joined(
    f: &mut Formatter<'_>,
    parts: impl Iterator<Item = impl Display>,
    word: &str,
    none: &str,
) -> fmt::Result {
    let mut is_first = true;
    for part in parts {
        f.write_str(if is_first { "" } else { word })?;
        write!(f, "{part}")?;
        is_first = false;
    }
    f.write_str(if is_first { none } else { "" })
}
