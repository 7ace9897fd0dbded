use super::POLICY_GROUP;
use linkerd_api_proto::inbound::authn::{
    Permit, PermitMeshTls, PermitUnauthenticated,
    permit_mesh_tls::{Clients, PermitClientIdentities},
};
use linkerd_api_proto::inbound::{Authn, Authz, Identity, IdentitySuffix, Network};
use linkerd_api_proto::meta::{Metadata, Resource, metadata};
use linkerd_api_proto::net::IpNetwork;
use std::net::{Ipv4Addr, Ipv6Addr};

/// An authorization of a [`ServerPolicy`](crate::ServerPolicy) or of one of its routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Authorization {
    metadata: metadata::Kind,
    networks: Vec<Network>,
    is_mesh_tls: bool,
    identities: Vec<String>,
    suffixes: Vec<Vec<String>>,
}

impl Authorization {
    /// An `AuthorizationPolicy` that admits clients of all networks, with any identity or none.
    pub fn all(name: &str) -> Self {
        let all = [
            IpNetwork::from((Ipv4Addr::UNSPECIFIED, 0)),
            IpNetwork::from((Ipv6Addr::UNSPECIFIED, 0)),
        ];
        Self::of_networks(name, all)
    }

    /// An `AuthorizationPolicy` that admits clients of these networks, with any identity or none.
    pub fn of_networks<N: Into<IpNetwork>>(
        name: &str,
        networks: impl IntoIterator<Item = N>,
    ) -> Self {
        let networks = networks.into_iter().map(|network| (network, Vec::new()));
        Self::with_networks(name, networks)
    }

    /// An `AuthorizationPolicy` that admits clients of networks except for excluded parts, with any identity or none.
    pub(crate) fn with_networks<N: Into<IpNetwork>>(
        name: &str,
        networks: impl IntoIterator<Item = (N, Vec<N>)>,
    ) -> Self {
        let network = |(network, except): (N, Vec<N>)| Network {
            net: Some(network.into()),
            except: except.into_iter().map(Into::into).collect(),
        };
        Self {
            metadata: metadata::Kind::Resource(Resource {
                group: POLICY_GROUP.to_owned(),
                kind: "authorizationpolicy".to_owned(),
                name: name.to_owned(),
                namespace: "default".to_owned(),
                section: String::new(),
                port: 0,
            }),
            networks: networks.into_iter().map(network).collect(),
            is_mesh_tls: false,
            identities: Vec::new(),
            suffixes: Vec::new(),
        }
    }

    /// The authorization of a default policy, for clients of all networks. Admissions by `audit` are logged.
    pub fn default_of(policy: &str) -> Self {
        Self {
            metadata: metadata::Kind::Default(policy.to_owned()),
            ..Self::all(policy)
        }
    }

    /// Excludes a network from all of its networks.
    #[must_use]
    pub fn except(mut self, network: impl Into<IpNetwork>) -> Self {
        let left_out = network.into();
        for network in &mut self.networks {
            network.except.push(left_out);
        }
        self
    }

    /// Requires TLS of the mesh, with or without a client's certificate.
    #[must_use]
    pub fn mesh_tls(mut self) -> Self {
        self.is_mesh_tls = true;
        self
    }

    /// Requires an identity: this one, or another one that was added.
    #[must_use]
    pub fn identity(mut self, name: &str) -> Self {
        self.identities.push(name.to_owned());
        self
    }

    /// Requires an identity that ends with these labels, such as `shop.serviceaccount.identity.linkerd.cluster.local`; without
    /// labels, any identity of the mesh.
    #[must_use]
    pub fn identities_below(mut self, labels: &str) -> Self {
        let labels = labels.split('.').filter(|label| !label.is_empty());
        self.suffixes.push(labels.map(str::to_owned).collect());
        self
    }

    pub(super) fn build(&self) -> Authz {
        let clients = match self.identities.is_empty() && self.suffixes.is_empty() {
            true => Clients::Unauthenticated(PermitUnauthenticated {}),
            false => Clients::Identities(PermitClientIdentities {
                identities: self
                    .identities
                    .iter()
                    .map(|name| Identity { name: name.clone() })
                    .collect(),
                suffixes: self
                    .suffixes
                    .iter()
                    .map(|parts| IdentitySuffix {
                        parts: parts.clone(),
                    })
                    .collect(),
            }),
        };
        let permit = match clients {
            Clients::Unauthenticated(any) if !self.is_mesh_tls => Permit::Unauthenticated(any),
            clients => Permit::MeshTls(PermitMeshTls {
                clients: Some(clients),
            }),
        };
        Authz {
            networks: self.networks.clone(),
            authentication: Some(Authn {
                permit: Some(permit),
            }),
            labels: Default::default(),
            metadata: Some(Metadata {
                kind: Some(self.metadata.clone()),
            }),
        }
    }
}
