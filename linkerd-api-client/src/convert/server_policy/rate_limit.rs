//! Rate limits.

use super::{invalid::InvalidServer, resource::of_metadata};
use linkerd_api_proto::inbound::{
    HttpLocalRateLimit,
    http_local_rate_limit::{Limit, Override},
};
use linkerd_profiles::{RateLimitOverride, RateLimitSettings, RateLimiter};
use linkerd_proxy_core::tls::Identity;
use std::{num::NonZeroU32, sync::Arc};

/// Converts the limits of a port. A limit of 0 means no limit.
pub(super) fn limiter(
    wire: Option<HttpLocalRateLimit>,
) -> Result<Option<Arc<RateLimiter>>, InvalidServer> {
    let Some(wire) = wire else {
        return Ok(None);
    };
    let overrides = wire.overrides.into_iter().map(limit_override);
    let settings = RateLimitSettings {
        meta: of_metadata(wire.metadata, "a rate limit's metadata")?,
        total: limit(wire.total),
        per_identity: limit(wire.identity),
        overrides: overrides
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?,
    };
    Ok(Some(Arc::new(RateLimiter::new(settings))))
}

/// Converts an override. Without a limit it is ignored: its identities have the limit of each identity.
fn limit_override(wire: Override) -> Result<Option<RateLimitOverride>, InvalidServer> {
    let Some(limit) = limit(wire.limit) else {
        return Ok(None);
    };
    let identity = |name: &str| -> Result<Identity, InvalidServer> {
        name.parse()
            .map_err(|error: linkerd_proxy_core::tls::InvalidIdentity| {
                InvalidServer::Identity(error.to_string())
            })
    };
    let clients = wire.clients.unwrap_or_default().identities;
    let clients = clients.iter().map(|it| identity(&it.name));
    Ok(Some(RateLimitOverride {
        limit,
        clients: clients.collect::<Result<_, _>>()?,
    }))
}

fn limit(wire: Option<Limit>) -> Option<NonZeroU32> {
    NonZeroU32::new(wire?.requests_per_second)
}
