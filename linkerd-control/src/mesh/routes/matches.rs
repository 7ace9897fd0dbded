//! Matches of a rule.

use crate::mesh::form::{FieldReader, Fields, shown};
use crate::mesh::yaml::Node;
use crate::policy::{Protocol, RouteMatch};

/// Properties of a rule's matches on which its filters depend.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MatchShape {
    /// Whether each match has a path prefix.
    pub(super) all_have_prefix: bool,
}

#[derive(Clone, Copy)]
enum PathType {
    Exact,
    Prefix,
    Regex,
}

/// The comparison of a value: exact, or by a regular expression.
#[derive(Clone, Copy)]
enum ValueType {
    Exact,
    Regex,
}

/// The field `matches` of a rule; absent for every request.
pub(super) fn matches(
    r: &mut FieldReader,
    fields: &Fields<'_>,
    protocol: Protocol,
) -> (Vec<RouteMatch>, MatchShape) {
    let mut matches: Vec<RouteMatch> = Vec::new();
    let mut prefixes = 0;
    for node in r.items(fields, "matches") {
        let problems = r.problems.count();
        let read = match protocol {
            Protocol::Grpc => grpc_match(r, node),
            _ => http_match(r, node, &mut prefixes),
        };
        let Some(read) = read else {
            continue;
        };
        // A match with a problem lacks the part in which it may differ from another.
        if problems == r.problems.count() && matches.contains(&read) {
            r.report(node.at, "this match is listed twice; remove one");
        }
        matches.push(read);
    }
    let all_have_prefix = prefixes > 0 && prefixes == matches.len();
    (matches, MatchShape { all_have_prefix })
}

fn http_match(r: &mut FieldReader, node: &Node, prefixes: &mut usize) -> Option<RouteMatch> {
    let fields = r.fields(node, &["path", "headers", "queryParams", "method"])?;
    let path = r.value(&fields, "path", |r, node| path_match(r, node, prefixes));
    let mut read = path.unwrap_or_default();
    read = headers(r, &fields, read);
    let mut seen = Vec::new();
    for node in r.items(&fields, "queryParams") {
        let name = |r: &mut FieldReader, node: &Node| r.text(node);
        let Some((name, kind, value)) = named_value(r, node, "query parameter", name, &mut seen)
        else {
            continue;
        };
        read = match kind {
            ValueType::Exact => read.query(&name, &value),
            ValueType::Regex => read.query_regex(&name, &value),
        };
    }
    let method = r.value(&fields, "method", |r, node| match node.is_scalar() {
        true => r.http_method(node),
        false => {
            let reason = format!(
                "expected an HTTP method, not {}; methods of gRPC need `protocol: grpc` of the service",
                shown(node)
            );
            r.report(node.at, reason);
            None
        }
    });
    if let Some(method) = method {
        read = read.method(&method);
    }
    Some(read)
}

fn path_match(r: &mut FieldReader, node: &Node, prefixes: &mut usize) -> Option<RouteMatch> {
    let fields = r.fields(node, &["type", "value"])?;
    let types = [
        ("Exact", PathType::Exact),
        ("PathPrefix", PathType::Prefix),
        ("RegularExpression", PathType::Regex),
    ];
    let kind = r.choice(&fields, "type", &types);
    // A type that was reported as wrong leaves the meaning of the value open.
    if kind.is_none() && fields.get("type").is_some() {
        return None;
    }
    let kind = kind.unwrap_or(PathType::Prefix);
    *prefixes += usize::from(matches!(kind, PathType::Prefix));
    let value = match kind {
        PathType::Regex => r.value(&fields, "value", FieldReader::regex),
        PathType::Exact | PathType::Prefix => r.value(&fields, "value", FieldReader::path),
    };
    if value.is_none() && fields.get("value").is_some() {
        return None;
    }
    // As in the Gateway API.
    let value = value.unwrap_or_else(|| "/".to_owned());
    Some(match kind {
        PathType::Exact => RouteMatch::exact(value),
        PathType::Prefix => RouteMatch::prefix(value),
        PathType::Regex => RouteMatch::regex(value),
    })
}

fn grpc_match(r: &mut FieldReader, node: &Node) -> Option<RouteMatch> {
    let fields = r.fields(node, &["method", "headers"])?;
    let read = r.value(&fields, "method", |r, node| {
        if node.is_scalar() {
            let reason = format!(
                "expected the `service` and `method` of gRPC calls, not {}",
                shown(node)
            );
            r.report(node.at, reason);
            return None;
        }
        let fields = r.fields(node, &["type", "service", "method"])?;
        // Regular expressions of gRPC methods have no counterpart in the proxy's API.
        r.choice(&fields, "type", &[("Exact", ())]);
        let service = r.value(&fields, "service", FieldReader::text);
        let method = r.value(&fields, "method", FieldReader::text);
        if service.is_none() && method.is_none() {
            r.report(fields.at, "the method match names no `service` or `method`");
        }
        Some(RouteMatch::rpc(
            service.unwrap_or_default(),
            method.unwrap_or_default(),
        ))
    });
    Some(headers(r, &fields, read.unwrap_or_default()))
}

fn headers(r: &mut FieldReader, fields: &Fields<'_>, mut read: RouteMatch) -> RouteMatch {
    let mut seen = Vec::new();
    for node in r.items(fields, "headers") {
        let header = named_value(r, node, "header", FieldReader::header_name, &mut seen);
        let Some((name, kind, value)) = header else {
            continue;
        };
        read = match kind {
            ValueType::Exact => read.header(&name, &value),
            ValueType::Regex => read.header_regex(&name, &value),
        };
    }
    read
}

/// A name with its value, exact or by a regular expression. Each name may occur once in a match.
fn named_value(
    r: &mut FieldReader,
    node: &Node,
    noun: &str,
    read_name: impl Fn(&mut FieldReader, &Node) -> Option<String>,
    seen: &mut Vec<String>,
) -> Option<(String, ValueType, String)> {
    let fields = r.fields(node, &["type", "name", "value"])?;
    let types = [
        ("Exact", ValueType::Exact),
        ("RegularExpression", ValueType::Regex),
    ];
    let kind = r.choice(&fields, "type", &types);
    let owner = format!("the {noun}");
    let name = r.required(&fields, &owner, "name", read_name);
    let kind = kind.unwrap_or(ValueType::Exact);
    let value = match kind {
        ValueType::Exact => r.required(&fields, &owner, "value", FieldReader::text),
        ValueType::Regex => r.required(&fields, &owner, "value", FieldReader::regex),
    };
    let (name, value) = (name?, value?);
    if seen.contains(&name) {
        let reason = format!("{noun} `{name}` is matched twice; remove one");
        r.report(node.at, reason);
        return None;
    }
    seen.push(name.clone());
    Some((name, kind, value))
}
