//! Authorizations of servers and routes.

use super::{
    invalid::InvalidServer,
    resource::{of_labels, of_metadata},
};
use ipnet::IpNet;
use linkerd_api_proto::{
    inbound::{
        Authn, Authz, Network,
        authn::{Permit, PermitMeshTls, permit_mesh_tls},
    },
    net::IpNetwork,
};
use linkerd_profiles::{Authentication, Authorization, ClientIdentities, ClientNetwork};

/// Converts authorizations, in order.
pub(super) fn authorizations(wire: Vec<Authz>) -> Result<Vec<Authorization>, InvalidServer> {
    wire.into_iter().map(authorization).collect()
}

fn authorization(wire: Authz) -> Result<Authorization, InvalidServer> {
    if wire.networks.is_empty() {
        return Err(InvalidServer::NoNetworks);
    }
    Ok(Authorization {
        networks: wire
            .networks
            .into_iter()
            .map(network)
            .collect::<Result<_, _>>()?,
        authentication: authentication(wire.authentication)?,
        meta: match wire.metadata {
            Some(metadata) => of_metadata(Some(metadata), "an authorization's metadata")?,
            None => of_labels(wire.labels, "serverauthorization")?,
        },
    })
}

fn network(wire: Network) -> Result<ClientNetwork, InvalidServer> {
    let network = wire.net.ok_or(InvalidServer::Missing("a network"))?;
    Ok(ClientNetwork {
        network: ip_network(network)?,
        except: wire
            .except
            .into_iter()
            .map(ip_network)
            .collect::<Result<_, _>>()?,
    })
}

fn ip_network(wire: IpNetwork) -> Result<IpNet, InvalidServer> {
    IpNet::try_from(wire).map_err(|error| InvalidServer::Network(error.to_string()))
}

fn authentication(wire: Option<Authn>) -> Result<Authentication, InvalidServer> {
    use permit_mesh_tls::Clients;
    let missing = InvalidServer::Missing("the authentication of an authorization");
    match wire.and_then(|wire| wire.permit).ok_or(missing)? {
        Permit::Unauthenticated(_) => Ok(Authentication::Unauthenticated),
        Permit::MeshTls(PermitMeshTls { clients }) => {
            match clients.ok_or(InvalidServer::Missing("the clients of an authorization"))? {
                Clients::Unauthenticated(_) => Ok(Authentication::MeshTls),
                Clients::Identities(wire) => Ok(Authentication::Identities(ClientIdentities {
                    exact: wire
                        .identities
                        .into_iter()
                        .map(|it| exact(it.name))
                        .collect(),
                    suffixes: wire.suffixes.iter().map(|it| suffix(&it.parts)).collect(),
                })),
            }
        }
    }
}

/// An identity in the form for comparison: DNS names are in lower case. A text that is no identity stays, and matches no client.
fn exact(name: String) -> Box<str> {
    match name.contains("://") {
        true => name.into(),
        false => name.to_ascii_lowercase().into(),
    }
}

/// The end of a name; without parts, the end of every name.
fn suffix(parts: &[String]) -> Box<str> {
    let suffix: String = parts.iter().map(|part| format!(".{part}")).collect();
    suffix.to_ascii_lowercase().into()
}
