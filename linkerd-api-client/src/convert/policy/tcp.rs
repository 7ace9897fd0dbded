//! Routes of connections: opaque and TLS.

use super::{
    backend::{Shape, distribution, shape, tcp_backend},
    invalid::InvalidPolicy,
    parts::{NotHonoured, host, meta},
};
use linkerd_api_proto::{
    outbound::{OpaqueRoute as WireOpaqueRoute, TlsRoute as WireTlsRoute, opaque_route, tls_route},
    tls_route as wire_tls,
};
use linkerd_profiles::{OpaqueRoute, SniMatch, TcpFilter, TlsRoute, TlsTable};

/// The only route of opaque traffic, if it has one.
pub(super) fn opaque(
    mut wire: Vec<WireOpaqueRoute>,
    later: &mut NotHonoured,
) -> Result<Option<OpaqueRoute>, InvalidPolicy> {
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
            let filter = opaque_filter(&route_backend.filters);
            tcp_backend(route_backend.backend, filter, later)
        })?,
        filter: opaque_filter(&rule.filters),
    }))
}

/// The routes of TLS traffic.
pub(super) fn tls(
    wire: Vec<WireTlsRoute>,
    later: &mut NotHonoured,
) -> Result<TlsTable, InvalidPolicy> {
    let routes = wire
        .into_iter()
        .map(|route| {
            let rule = only(route.rules)?;
            Ok(TlsRoute {
                meta: meta(route.metadata, "a TLS route's metadata")?,
                snis: snis(route.snis),
                distribution: distribution(shape!(rule.backends, tls_route)?, |route_backend| {
                    let filter = tls_filter(&route_backend.filters);
                    tcp_backend(route_backend.backend, filter, later)
                })?,
                filter: tls_filter(&rule.filters),
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

fn snis(wire: Vec<wire_tls::SniMatch>) -> Vec<SniMatch> {
    use wire_tls::sni_match::Match;
    wire.into_iter()
        .filter_map(|matcher| match matcher.r#match? {
            Match::Exact(exact) => Some(host(Some(exact), Vec::new())),
            Match::Suffix(suffix) => Some(host(None, suffix.reverse_labels)),
        })
        .collect()
}

/// The first filter decides: each kind of filter refuses.
fn opaque_filter(wire: &[opaque_route::Filter]) -> Option<TcpFilter> {
    use opaque_route::filter::Kind;
    wire.iter().find_map(|filter| match filter.kind.as_ref()? {
        Kind::Forbidden(_) => Some(TcpFilter::Forbidden),
        Kind::Invalid(invalid) => Some(TcpFilter::Invalid(invalid.message.clone())),
    })
}

fn tls_filter(wire: &[tls_route::Filter]) -> Option<TcpFilter> {
    use tls_route::filter::Kind;
    wire.iter().find_map(|filter| match filter.kind.as_ref()? {
        Kind::Forbidden(_) => Some(TcpFilter::Forbidden),
        Kind::Invalid(invalid) => Some(TcpFilter::Invalid(invalid.message.clone())),
    })
}
