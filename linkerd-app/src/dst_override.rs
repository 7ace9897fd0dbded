//! The header `l5d-dst-override`, by which requests to an ingress name their target.

use http::{HeaderMap, HeaderName, uri::Authority};
use linkerd_profiles::Target;
use linkerd_proxy_core::{Error, Reason, http::host_and_port};
use std::net::IpAddr;

/// Removes the header and reads it. A value that is no authority is ignored.
pub fn take_override(headers: &mut HeaderMap) -> Result<Option<Authority>, Error> {
    let Some(value) = headers.remove(DST_OVERRIDE) else {
        return Ok(None);
    };
    let Ok(authority) = Authority::try_from(value.as_bytes()) else {
        return Ok(None);
    };
    let (host, _) = host_and_port(&authority, DEFAULT_PORT);
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address {
        let detail =
            format!("l5d-dst-override must name a service, and not an address: {authority}");
        return Err(Error::new(Reason::InvalidRequest).detail(detail));
    }
    Ok(Some(authority))
}

/// The target that the header names.
pub fn override_target(authority: &Authority) -> Result<Target, Error> {
    let (host, port) = host_and_port(authority, DEFAULT_PORT);
    Target::new(&host, port).map_err(|_| {
        // User information before the host may be a secret.
        let named = authority.host();
        let detail = format!("l5d-dst-override names no host and port: {named}");
        Error::new(Reason::InvalidRequest).detail(detail)
    })
}

/// Names the target of a request; consumed here.
const DST_OVERRIDE: HeaderName = HeaderName::from_static("l5d-dst-override");

const DEFAULT_PORT: u16 = 80;
