//! Filters of routes and of their backends.

use super::super::{invalid::InvalidPolicy, parts::required};
use ::http::{
    HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    uri::Scheme,
};
use linkerd_api_proto::{
    grpc_route as wire_grpc, http_route as wire, http_types,
    outbound::{grpc_route, http_route},
};
use linkerd_profiles::{
    FailureInjector, HeaderModifier, HttpFilter, InjectedFailure, PathModifier, Ratio, Redirect,
};
use std::ops::RangeInclusive;

/// The filters of an HTTP route.
pub(super) fn http(wire: Vec<http_route::Filter>) -> Result<Vec<HttpFilter>, InvalidPolicy> {
    use http_route::filter::Kind;
    wire.into_iter()
        .map(|wire| match required(wire.kind, "a filter")? {
            Kind::FailureInjector(wire) => http_failure(wire),
            Kind::RequestHeaderModifier(wire) => request_headers(wire),
            Kind::ResponseHeaderModifier(wire) => {
                let changes = modifier(wire.add, wire.set, wire.remove)?;
                Ok(HttpFilter::ResponseHeaders(changes))
            }
            Kind::Redirect(wire) => redirect(wire).map(HttpFilter::Redirect),
        })
        .collect()
}

/// The filters of a gRPC route.
pub(super) fn grpc(wire: Vec<grpc_route::Filter>) -> Result<Vec<HttpFilter>, InvalidPolicy> {
    use grpc_route::filter::Kind;
    wire.into_iter()
        .map(|wire| match required(wire.kind, "a filter")? {
            Kind::FailureInjector(wire) => grpc_failure(wire),
            Kind::RequestHeaderModifier(wire) => request_headers(wire),
        })
        .collect()
}

/// An injector of HTTP failures.
pub(in crate::convert) fn http_failure(
    wire: wire::HttpFailureInjector,
) -> Result<HttpFilter, InvalidPolicy> {
    Ok(HttpFilter::InjectFailure(FailureInjector {
        failure: InjectedFailure::Status(status(wire.status, 200..=599)?),
        message: wire.message,
        ratio: ratio(wire.ratio)?,
    }))
}

/// An injector of gRPC failures.
pub(in crate::convert) fn grpc_failure(
    wire: wire_grpc::GrpcFailureInjector,
) -> Result<HttpFilter, InvalidPolicy> {
    let code = u16::try_from(wire.code).map_err(|_| InvalidPolicy::Status(wire.code))?;
    Ok(HttpFilter::InjectFailure(FailureInjector {
        failure: InjectedFailure::Grpc(code),
        message: wire.message,
        ratio: ratio(wire.ratio)?,
    }))
}

/// Without a ratio all requests fail.
fn ratio(wire: Option<wire::Ratio>) -> Result<Ratio, InvalidPolicy> {
    match wire {
        None => Ok(Ratio::ALL),
        Some(wire::Ratio {
            numerator,
            denominator,
        }) => {
            Ratio::new(numerator, denominator).ok_or(InvalidPolicy::Ratio(numerator, denominator))
        }
    }
}

/// A change of the headers of requests.
pub(in crate::convert) fn request_headers(
    wire: wire::RequestHeaderModifier,
) -> Result<HttpFilter, InvalidPolicy> {
    let changes = modifier(wire.add, wire.set, wire.remove)?;
    Ok(HttpFilter::RequestHeaders(changes))
}

fn modifier(
    add: Option<http_types::Headers>,
    set: Option<http_types::Headers>,
    remove: Vec<String>,
) -> Result<HeaderModifier, InvalidPolicy> {
    Ok(HeaderModifier {
        add: headers(add)?,
        set: headers(set)?,
        remove: remove.into_iter().map(name).collect::<Result<_, _>>()?,
    })
}

fn headers(
    wire: Option<http_types::Headers>,
) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidPolicy> {
    let headers = wire.unwrap_or_default().headers.into_iter();
    headers
        .map(|wire| {
            let name = name(wire.name)?;
            if [CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) {
                return Err(InvalidPolicy::FramingHeader(name));
            }
            match HeaderValue::try_from(wire.value) {
                Ok(value) => Ok((name, value)),
                Err(_) => Err(InvalidPolicy::HeaderValue(name)),
            }
        })
        .collect()
}

fn name(name: String) -> Result<HeaderName, InvalidPolicy> {
    HeaderName::try_from(&name).map_err(|_| InvalidPolicy::HeaderName(name))
}

/// A redirect. Numbers and names that are 0 or empty are not set.
pub(in crate::convert) fn redirect(wire: wire::RequestRedirect) -> Result<Redirect, InvalidPolicy> {
    use wire::path_modifier::Replace;
    let path = wire.path.and_then(|path| path.replace);
    Ok(Redirect {
        scheme: wire.scheme.map(scheme).transpose()?,
        host: Some(wire.host)
            .filter(|host| !host.is_empty())
            .map(host)
            .transpose()?,
        port: match u16::try_from(wire.port) {
            Ok(port) => Some(port).filter(|port| *port > 0),
            Err(_) => return Err(InvalidPolicy::RedirectPort(wire.port)),
        },
        path: path.map(|path| match path {
            Replace::Full(path) => PathModifier::Full(path),
            Replace::Prefix(prefix) => PathModifier::Prefix(prefix),
        }),
        status: match wire.status {
            0 => StatusCode::MOVED_PERMANENTLY,
            number => status(number, 300..=399)?,
        },
    })
}

fn host(host: String) -> Result<String, InvalidPolicy> {
    match ::http::uri::Authority::try_from(&*host) {
        Ok(authority) if authority.port().is_none() && !host.contains('@') => Ok(host),
        _ => Err(InvalidPolicy::RedirectHost(host)),
    }
}

fn scheme(wire: http_types::Scheme) -> Result<Scheme, InvalidPolicy> {
    use http_types::scheme::{Registered, Type};
    match required(wire.r#type, "a redirect's scheme")? {
        Type::Registered(number) => match Registered::try_from(number) {
            Ok(Registered::Http) => Ok(Scheme::HTTP),
            Ok(Registered::Https) => Ok(Scheme::HTTPS),
            Err(_) => Err(InvalidPolicy::Scheme(number.to_string())),
        },
        Type::Unregistered(name) => {
            Scheme::try_from(&*name).map_err(|_| InvalidPolicy::Scheme(name))
        }
    }
}

/// A status of an answer. One of 1xx would be no answer, and a redirect needs one of 3xx.
fn status(number: u32, of: RangeInclusive<u16>) -> Result<StatusCode, InvalidPolicy> {
    let status = u16::try_from(number).ok();
    let status = status.filter(|number| of.contains(number));
    status
        .and_then(|number| StatusCode::from_u16(number).ok())
        .ok_or(InvalidPolicy::Status(number))
}
