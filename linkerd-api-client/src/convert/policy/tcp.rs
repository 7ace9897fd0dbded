//! Routes of connections: opaque and TLS.

use super::{
    backend::{Shape, distribution, shape, tcp_backend},
    invalid::InvalidPolicy,
    parts::{host, meta, required},
};
use linkerd_api_proto::{
    outbound::{OpaqueRoute as WireOpaqueRoute, TlsRoute as WireTlsRoute, opaque_route, tls_route},
    tls_route as wire_tls,
};
use linkerd_profiles::{OpaqueRoute, SniMatch, TcpFilter, TlsRoute, TlsTable};

/// The only route of opaque traffic, if it has one.
pub(super) fn opaque(mut wire: Vec<WireOpaqueRoute>) -> Result<Option<OpaqueRoute>, InvalidPolicy> {
    if wire.len() > 1 {
        return Err(InvalidPolicy::OpaqueRoutes(wire.len()));
    }
    let Some(route) = wire.pop() else {
        return Ok(None);
    };
    let meta = meta(route.metadata, "an opaque route's metadata")?;
    let rule = only(route.rules)?;
    Ok(Some(OpaqueRoute {
        meta,
        distribution: distribution(shape!(rule.backends, opaque_route)?, |route_backend| {
            let filter = opaque_filter(&route_backend.filters)?;
            tcp_backend(route_backend.backend, filter)
        })?,
        filter: opaque_filter(&rule.filters)?,
    }))
}

/// The routes of TLS traffic.
pub(super) fn tls(wire: Vec<WireTlsRoute>) -> Result<TlsTable, InvalidPolicy> {
    let routes = wire
        .into_iter()
        .map(|route| {
            let rule = only(route.rules)?;
            Ok(TlsRoute {
                meta: meta(route.metadata, "a TLS route's metadata")?,
                snis: snis(route.snis)?,
                distribution: distribution(shape!(rule.backends, tls_route)?, |route_backend| {
                    let filter = tls_filter(&route_backend.filters)?;
                    tcp_backend(route_backend.backend, filter)
                })?,
                filter: tls_filter(&rule.filters)?,
            })
        })
        .collect::<Result<_, InvalidPolicy>>()?;
    Ok(TlsTable::new(routes))
}

fn only<T>(mut rules: Vec<T>) -> Result<T, InvalidPolicy> {
    let count = rules.len();
    match rules.pop() {
        Some(rule) if count == 1 => Ok(rule),
        _ => Err(InvalidPolicy::Rules(count)),
    }
}

fn snis(wire: Vec<wire_tls::SniMatch>) -> Result<Vec<SniMatch>, InvalidPolicy> {
    use wire_tls::sni_match::Match;
    let snis = wire.into_iter().map(|wire| {
        // Without it the route would match every server name.
        Ok(match required(wire.r#match, "a match of a server name")? {
            Match::Exact(exact) => host(Some(exact), Vec::new()),
            Match::Suffix(suffix) => host(None, suffix.reverse_labels),
        })
    });
    snis.collect()
}

/// The first filter decides: each kind of filter refuses. A filter of an unknown kind may be one that refuses, too. The filters of
/// both kinds of routes have the same variants, in types of their own.
macro_rules! tcp_filter {
    ($wire:expr, $route:ident, $part:literal) => {{
        use $route::filter::Kind;
        let filters = $wire.iter().map(|filter| {
            Ok(match required(filter.kind.as_ref(), $part)? {
                Kind::Forbidden(_) => TcpFilter::Forbidden,
                Kind::Invalid(invalid) => TcpFilter::Invalid(invalid.message.clone()),
            })
        });
        let filters: Vec<_> = filters.collect::<Result<_, InvalidPolicy>>()?;
        Ok(filters.into_iter().next())
    }};
}

fn opaque_filter(wire: &[opaque_route::Filter]) -> Result<Option<TcpFilter>, InvalidPolicy> {
    tcp_filter!(wire, opaque_route, "an opaque route's filter")
}

fn tls_filter(wire: &[tls_route::Filter]) -> Result<Option<TcpFilter>, InvalidPolicy> {
    tcp_filter!(wire, tls_route, "a TLS route's filter")
}
