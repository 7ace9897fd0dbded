//! Client policies.

mod accrual;
mod backend;
mod http;
mod invalid;
mod parts;
mod shared;
mod tcp;

pub(super) use http::{Matches, filters, hosts};
pub use invalid::InvalidPolicy;

use linkerd_api_proto::outbound::{OutboundPolicy, proxy_protocol};
use linkerd_profiles::{ClientPolicy, Protocol};
use parts::{duration, meta, required};
use std::sync::Arc;

/// Converts a policy. An invalid policy is converted into one that refuses all traffic. Yields the core to other threads
/// meanwhile: ten thousand routes take a tenth of a second.
pub fn client_policy(policy: OutboundPolicy) -> ClientPolicy {
    let converted = try_policy(policy);
    let mut policy = converted.unwrap_or_else(|invalid| ClientPolicy::invalid(invalid.to_string()));
    shared::share_metas(&mut policy);
    policy
}

fn try_policy(policy: OutboundPolicy) -> Result<ClientPolicy, InvalidPolicy> {
    use proxy_protocol::Kind;
    let parent = meta(policy.metadata, "the policy's metadata")?;
    let kind = required(
        policy.protocol.and_then(|protocol| protocol.kind),
        "the protocol",
    )?;
    let protocol = match kind {
        Kind::Detect(detect) => {
            let http1 = required(detect.http1, "the HTTP/1 part of the protocol")?;
            let http2 = required(detect.http2, "the HTTP/2 part of the protocol")?;
            let opaque = required(detect.opaque, "the opaque part of the protocol")?;
            // Most policies have the same routes for both versions; thousands of them take a while.
            let is_one = http1.failure_accrual == http2.failure_accrual
                && http::equal(&http1.routes, &http2.routes);
            let http1 = Arc::new(http::routes(http1.routes, http1.failure_accrual)?);
            Protocol::Detect {
                timeout: duration(detect.timeout, "the detection timeout")?,
                http2: match is_one {
                    true => http1.clone(),
                    false => Arc::new(http::routes(http2.routes, http2.failure_accrual)?),
                },
                http1,
                opaque: tcp::opaque(opaque.routes)?,
            }
        }
        Kind::Http1(http1) => {
            Protocol::Http1(Arc::new(http::routes(http1.routes, http1.failure_accrual)?))
        }
        Kind::Http2(http2) => {
            Protocol::Http2(Arc::new(http::routes(http2.routes, http2.failure_accrual)?))
        }
        Kind::Grpc(grpc) => {
            Protocol::Grpc(Arc::new(http::routes(grpc.routes, grpc.failure_accrual)?))
        }
        Kind::Opaque(opaque) => Protocol::Opaque(tcp::opaque(opaque.routes)?),
        Kind::Tls(tls) => Protocol::Tls(Arc::new(tcp::tls(tls.routes)?)),
    };
    Ok(ClientPolicy {
        parent,
        protocol,
        invalid: None,
    })
}

#[cfg(test)]
mod tests;
