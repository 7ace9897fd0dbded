//! Filters of a rule.

use super::matches::MatchShape;
use crate::mesh::form::{FieldReader, Fields};
use crate::mesh::host_name::hostname;
use crate::mesh::yaml::Node;
use crate::policy::{HeaderChanges, Protocol, RouteFilter};
use linkerd_api_proto::http_route::{PathModifier, RequestRedirect, path_modifier};
use linkerd_api_proto::http_types::{Scheme, scheme};

/// A type of filter. Its field has the same name, beginning with a small letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilterType {
    RequestHeaders,
    ResponseHeaders,
    Redirect,
    Failure,
}

const TYPES: [(&str, FilterType); 4] = [
    ("RequestHeaderModifier", FilterType::RequestHeaders),
    ("ResponseHeaderModifier", FilterType::ResponseHeaders),
    ("RequestRedirect", FilterType::Redirect),
    ("FailureInjector", FilterType::Failure),
];

const FIELDS: [(&str, FilterType); 4] = [
    ("requestHeaderModifier", FilterType::RequestHeaders),
    ("responseHeaderModifier", FilterType::ResponseHeaders),
    ("requestRedirect", FilterType::Redirect),
    ("failureInjector", FilterType::Failure),
];

/// The field `filters` of a rule, each type at most once.
pub(super) fn filters(
    r: &mut FieldReader,
    fields: &Fields<'_>,
    protocol: Protocol,
    shape: MatchShape,
) -> Vec<RouteFilter> {
    let mut seen = Vec::new();
    let mut filters = Vec::new();
    for node in r.items(fields, "filters") {
        let Some((kind, settings)) = settings(r, node) else {
            continue;
        };
        if seen.contains(&kind) {
            r.report(
                node.at,
                "the rule has a filter of this type already; remove one",
            );
        }
        seen.push(kind);
        let filter = match kind {
            FilterType::RequestHeaders => {
                header_changes(r, settings).map(RouteFilter::request_headers)
            }
            FilterType::Failure => failure(r, settings, protocol),
            _ if protocol == Protocol::Grpc => {
                let reason =
                    "gRPC routes have no such filter; use RequestHeaderModifier or FailureInjector";
                r.report(node.at, reason);
                None
            }
            FilterType::ResponseHeaders => {
                header_changes(r, settings).map(RouteFilter::response_headers)
            }
            FilterType::Redirect => redirect(r, settings, shape),
        };
        filters.extend(filter);
    }
    filters
}

/// The type of a filter, and the node of its settings. The type may be omitted, as the name of the field implies it.
fn settings<'n>(r: &mut FieldReader, node: &'n Node) -> Option<(FilterType, &'n Node)> {
    let fields = r.fields(
        node,
        &[
            "type",
            "requestHeaderModifier",
            "responseHeaderModifier",
            "requestRedirect",
            "failureInjector",
        ],
    )?;
    let kind = r.choice(&fields, "type", &TYPES);
    if kind.is_none() && fields.get("type").is_some() {
        return None;
    }
    let given = |(name, kind): &(&'static str, FilterType)| {
        fields.get(name).map(|node| (*name, *kind, node))
    };
    let mut given = FIELDS.iter().filter_map(given);
    match (kind, given.next(), given.next()) {
        (_, _, Some((second, _, node))) => {
            let reason = format!(
                "a filter has one field beside its type; move `{second}` to a filter of its own"
            );
            r.report(node.at, reason);
            None
        }
        (Some(kind), Some((name, other, node)), None) if kind != other => {
            let reason = format!("`{name}` is not the field of the filter's type; change one");
            r.report(node.at, reason);
            None
        }
        (_, Some((_, kind, node)), None) => Some((kind, node)),
        (kind, None, None) => {
            let field = FIELDS.iter().find(|(_, of)| Some(*of) == kind);
            let field = field.map_or("type", |(name, _)| name);
            r.report(fields.at, format!("the filter has no `{field}`"));
            None
        }
    }
}

fn header_changes(r: &mut FieldReader, node: &Node) -> Option<HeaderChanges> {
    let fields = r.fields(node, &["add", "set", "remove"])?;
    let mut changes = HeaderChanges::new();
    for (name, value) in r.each(&fields, "add", header) {
        changes = changes.add(&name, &value);
    }
    for (name, value) in r.each(&fields, "set", header) {
        changes = changes.set(&name, &value);
    }
    for name in r.each(&fields, "remove", FieldReader::header_name) {
        changes = changes.remove(&name);
    }
    Some(changes)
}

fn header(r: &mut FieldReader, node: &Node) -> Option<(String, String)> {
    let fields = r.fields(node, &["name", "value"])?;
    let name = r.required(&fields, "the header", "name", |r, node| {
        let name = r.header_name(node)?;
        if FRAMING.contains(&&*name) {
            let reason = format!("`{name}` delimits messages, and the proxy writes it; remove it");
            r.report(node.at, reason);
        }
        Some(name)
    });
    let value = r.required(&fields, "the header", "value", FieldReader::header_value);
    name.zip(value)
}

/// Headers that no filter may set. Removing them has no effect.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// A failure of some requests: a status, or in gRPC routes a code.
fn failure(r: &mut FieldReader, node: &Node, protocol: Protocol) -> Option<RouteFilter> {
    const OWNER: &str = "the failure injector";
    let is_grpc = protocol == Protocol::Grpc;
    let fields = match is_grpc {
        true => r.fields(node, &["code", "message", "percent"])?,
        false => r.fields(node, &["statusCode", "message", "percent"])?,
    };
    let message = r.value(&fields, "message", FieldReader::header_value);
    let message = message.as_deref().unwrap_or("injected failure");
    let percent = r.value(&fields, "percent", |r, node| {
        r.decimal_within(node, 0.0..=100.0)
    });
    let filter = if is_grpc {
        let code = r.required(&fields, OWNER, "code", FieldReader::grpc_code)?;
        RouteFilter::fail_grpc(code, message)
    } else {
        let status = |r: &mut FieldReader, node: &Node| r.status(node, 200..=599);
        let status = r.required(&fields, OWNER, "statusCode", status)?;
        RouteFilter::fail(status, message)
    };
    Some(match percent {
        // Thousandths of a percent.
        Some(percent) => filter.ratio((percent * 1_000.0).round() as u32, 100_000),
        None => filter,
    })
}

fn redirect(r: &mut FieldReader, node: &Node, shape: MatchShape) -> Option<RouteFilter> {
    let fields = r.fields(node, &["scheme", "hostname", "port", "path", "statusCode"])?;
    let schemes = [
        ("http", scheme::Registered::Http),
        ("https", scheme::Registered::Https),
    ];
    let scheme = r.choice(&fields, "scheme", &schemes).map(|scheme| Scheme {
        r#type: Some(scheme::Type::Registered(scheme.into())),
    });
    let host = r.value(&fields, "hostname", |r, node| {
        let host = hostname(r, node)?;
        if host.starts_with("*.") {
            r.report(
                node.at,
                "a redirect leads to one host; write it without `*.`",
            );
        }
        Some(host)
    });
    let port = r.value(&fields, "port", |r, node| r.within(node, 1..=65_535));
    let path = r.value(&fields, "path", |r, node| path_modifier(r, node, shape));
    let status = r.value(&fields, "statusCode", |r, node| r.status(node, 300..=399));
    Some(RouteFilter::Redirect(RequestRedirect {
        scheme,
        host: host.unwrap_or_default(),
        port: port.unwrap_or_default(),
        path: path.map(|replace| PathModifier {
            replace: Some(replace),
        }),
        // As in the Gateway API.
        status: status.unwrap_or(302),
    }))
}

fn path_modifier(
    r: &mut FieldReader,
    node: &Node,
    shape: MatchShape,
) -> Option<path_modifier::Replace> {
    use path_modifier::Replace;
    let fields = r.fields(node, &["type", "replaceFullPath", "replacePrefixMatch"])?;
    let types = [("ReplaceFullPath", true), ("ReplacePrefixMatch", false)];
    let is_full = r.required(&fields, "the path", "type", |_, _| Some(()));
    is_full?;
    if r.choice(&fields, "type", &types)? {
        let path = r.required(&fields, "the path", "replaceFullPath", FieldReader::path);
        return path.map(Replace::Full);
    }
    if !shape.all_have_prefix {
        let reason =
            "ReplacePrefixMatch needs a path of type PathPrefix in each match of its rule; add it";
        r.report(fields.at, reason);
    }
    let path = r.required(&fields, "the path", "replacePrefixMatch", FieldReader::path);
    path.map(Replace::Prefix)
}
