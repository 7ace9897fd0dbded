//! Authorizations: the networks and identities that a server or a route admits.

use super::unmet_condition::UnmetCondition;
use crate::meta::Meta;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use linkerd_proxy_core::tls::{Identity, TlsStatus};
use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// An authorization: admits clients from its networks that meet its authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The resource that configured the authorization.
    pub meta: Arc<Meta>,
    /// The networks of its clients.
    pub networks: Vec<ClientNetwork>,
    /// The authentication of its clients.
    pub authentication: Authentication,
}

/// A network of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientNetwork {
    /// The network.
    pub network: IpNet,
    /// The parts of the network that are excluded.
    pub except: Vec<IpNet>,
}

/// The authentication that an authorization requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// None.
    Unauthenticated,
    /// TLS that the proxy terminates, with or without a client's certificate.
    MeshTls,
    /// One of these identities.
    Identities(ClientIdentities),
}

/// Identities of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentities {
    /// Whole identities: DNS names in lower case, or URIs.
    pub exact: BTreeSet<Box<str>>,
    /// Suffixes of DNS names, such as `.shop.serviceaccount.identity.linkerd.cluster.local`. The empty suffix matches every DNS
    /// name; no suffix matches a URI.
    pub suffixes: Vec<Box<str>>,
}

impl Authorization {
    /// The implicit authorization of clients in the same pod.
    pub fn localhost() -> Self {
        Self {
            meta: Arc::new(Meta::new_default("localhost")),
            networks: vec![
                Ipv4Net::from(Ipv4Addr::LOCALHOST).into(),
                Ipv6Net::from(Ipv6Addr::LOCALHOST).into(),
            ],
            authentication: Authentication::Unauthenticated,
        }
    }

    /// Whether its admissions are logged because another policy would deny them.
    pub fn is_audit(&self) -> bool {
        matches!(&*self.meta, Meta::Default(name) if name == AUDIT)
    }

    /// The first condition that a client does not meet; `None` if it is admitted.
    pub(super) fn unmet(&self, client: IpAddr, tls: &TlsStatus) -> Option<UnmetCondition> {
        let client = client.to_canonical();
        let mut networks = self.networks.iter();
        if !networks.any(|network| network.contains(client)) {
            let mut networks = self.networks.iter();
            return Some(match networks.any(|it| it.network.contains(&client)) {
                true => UnmetCondition::ExceptedNetwork,
                false => UnmetCondition::Network,
            });
        }
        let listed = match &self.authentication {
            Authentication::Unauthenticated => return None,
            Authentication::MeshTls => None,
            Authentication::Identities(listed) => Some(listed),
        };
        match (tls, listed) {
            (TlsStatus::None(_) | TlsStatus::Passthrough { .. }, _) => Some(UnmetCondition::NoTls),
            (TlsStatus::Meshed(_), None) => None,
            (TlsStatus::Meshed(None), Some(_)) => Some(UnmetCondition::NoIdentity),
            (TlsStatus::Meshed(Some(identity)), Some(listed)) => {
                (!listed.contains(identity)).then_some(UnmetCondition::IdentityNotListed)
            }
        }
    }
}

impl ClientNetwork {
    /// All addresses.
    pub fn all() -> Vec<Self> {
        vec![Ipv4Net::default().into(), Ipv6Net::default().into()]
    }

    fn contains(&self, client: IpAddr) -> bool {
        self.network.contains(&client) && !self.except.iter().any(|net| net.contains(&client))
    }
}

impl<N: Into<IpNet>> From<N> for ClientNetwork {
    /// A network without exceptions.
    fn from(network: N) -> Self {
        Self {
            network: network.into(),
            except: Vec::new(),
        }
    }
}

impl ClientIdentities {
    /// Every identity that is a DNS name.
    pub fn any() -> Self {
        Self {
            exact: BTreeSet::new(),
            suffixes: vec![Box::default()],
        }
    }

    /// Whether an identity is included.
    pub fn contains(&self, identity: &Identity) -> bool {
        let ends = |name: &str| self.suffixes.iter().any(|suffix| name.ends_with(&**suffix));
        self.exact.contains(identity.as_str()) || identity.dns_name().is_some_and(ends)
    }
}

impl fmt::Display for ClientNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.network)?;
        for (index, except) in self.except.iter().enumerate() {
            let separator = if index == 0 { " without " } else { ", " };
            write!(f, "{separator}{except}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = match self {
            Self::Unauthenticated => return f.write_str("nothing"),
            Self::MeshTls => return f.write_str("TLS of the mesh"),
            Self::Identities(listed) => listed,
        };
        let suffixes = listed.suffixes.iter().map(|suffix| format!("*{suffix}"));
        let exact = listed.exact.iter().map(|name| name.to_string());
        let names: Vec<_> = exact.chain(suffixes).collect();
        match &names[..] {
            [] => f.write_str("an identity, of which none is listed"),
            names => write!(f, "the identity {}", names.join(" or ")),
        }
    }
}

/// The name of the default policy that admits every client and logs it.
const AUDIT: &str = "audit";
