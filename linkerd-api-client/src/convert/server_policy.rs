//! Policies of ports.

mod access;
mod invalid;
mod rate_limit;
mod resource;
mod routes;

pub use invalid::InvalidServer;

use super::duration::duration;
use linkerd_api_proto::inbound::{Server, proxy_protocol::Kind};
use linkerd_profiles::{Authorization, InboundHttp, ServerPolicy, ServerProtocol};

/// Converts the policy of a port, and adds the implicit authorization of clients on loopback, which belong to the same pod.
/// An invalid policy is converted into one that refuses all traffic.
pub fn server_policy(server: Server) -> ServerPolicy {
    let mut policy = server_policy_alone(server);
    if policy.invalid.is_none() {
        policy.authorizations.push(Authorization::localhost());
    }
    policy
}

/// Converts the policy of a port like [`server_policy`], but without an authorization of clients on loopback.
pub fn server_policy_alone(server: Server) -> ServerPolicy {
    let converted = try_server(server);
    converted.unwrap_or_else(|invalid| ServerPolicy::invalid(invalid.to_string()))
}

fn try_server(server: Server) -> Result<ServerPolicy, InvalidServer> {
    let kind = server.protocol.and_then(|protocol| protocol.kind);
    let protocol = match kind.ok_or(InvalidServer::Missing("the protocol"))? {
        Kind::Detect(wire) => {
            let timeout = wire.timeout.as_ref();
            let timeout = timeout.ok_or(InvalidServer::Missing("the detection timeout"))?;
            ServerProtocol::Detect {
                timeout: duration(timeout).ok_or(InvalidServer::DetectTimeout)?,
                http: InboundHttp {
                    routes: routes::routes(wire.http_routes)?,
                    rate_limit: rate_limit::limiter(wire.http_local_rate_limit)?,
                },
            }
        }
        Kind::Http1(wire) => ServerProtocol::Http1(InboundHttp {
            routes: routes::routes(wire.routes)?,
            rate_limit: rate_limit::limiter(wire.local_rate_limit)?,
        }),
        Kind::Http2(wire) => ServerProtocol::Http2(InboundHttp {
            routes: routes::routes(wire.routes)?,
            rate_limit: rate_limit::limiter(wire.local_rate_limit)?,
        }),
        Kind::Grpc(wire) => ServerProtocol::Grpc(InboundHttp {
            routes: routes::routes(wire.routes)?,
            rate_limit: None,
        }),
        Kind::Opaque(_) => ServerProtocol::Opaque,
        Kind::Tls(_) => ServerProtocol::Tls,
    };
    let authorizations = access::authorizations(server.authorizations)?;
    Ok(ServerPolicy {
        meta: resource::of_labels(server.labels, "server")?,
        protocol,
        authorizations,
        invalid: None,
    })
}

#[cfg(test)]
mod tests;
