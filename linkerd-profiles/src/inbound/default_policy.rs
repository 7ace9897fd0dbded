//! Default policies of ports, until the control plane has sent one.

use super::{
    authorization::{Authentication, Authorization, ClientIdentities, ClientNetwork},
    server_policy::{InboundHttp, ServerPolicy, ServerProtocol},
};
use crate::meta::Meta;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The access by default policies. The implicit authorization of clients in the same pod is not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultAccess {
    /// No access: ports are opaque, and every connection is refused.
    Deny,
    /// Clients of these networks.
    Allow {
        /// The networks.
        networks: Vec<ClientNetwork>,
        /// Whether they need an identity of the mesh.
        authenticated: bool,
    },
}

/// The default policies of all ports.
#[derive(Clone, Debug)]
pub struct DefaultServerPolicies {
    detect: Arc<ServerPolicy>,
    opaque: Arc<ServerPolicy>,
    opaque_ports: BTreeSet<u16>,
}

impl DefaultServerPolicies {
    /// Policies named `name`. The ports among `opaque_ports` are opaque, the others are detected, within `timeout`.
    pub fn new(
        name: &str,
        access: DefaultAccess,
        timeout: Duration,
        opaque_ports: BTreeSet<u16>,
    ) -> Self {
        let meta = Arc::new(Meta::new_default(name));
        let authorizations = match access {
            DefaultAccess::Deny => Vec::new(),
            DefaultAccess::Allow {
                networks,
                authenticated,
            } => vec![Authorization {
                meta: meta.clone(),
                networks,
                authentication: match authenticated {
                    true => Authentication::Identities(ClientIdentities::any()),
                    false => Authentication::Unauthenticated,
                },
            }],
        };
        let opaque = Arc::new(ServerPolicy {
            meta,
            protocol: ServerProtocol::Opaque,
            authorizations,
            invalid: None,
        });
        let detect = match opaque.authorizations.is_empty() {
            // A connection that is denied anyway needs no detection.
            true => opaque.clone(),
            false => Arc::new(ServerPolicy {
                protocol: ServerProtocol::Detect {
                    timeout,
                    http: InboundHttp::default(),
                },
                ..(*opaque).clone()
            }),
        };
        Self {
            detect,
            opaque,
            opaque_ports,
        }
    }

    /// The default policy of a port.
    pub fn of_port(&self, port: u16) -> &Arc<ServerPolicy> {
        match self.opaque_ports.contains(&port) {
            true => &self.opaque,
            false => &self.detect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnmetCondition;
    use linkerd_proxy_core::tls::{NoTlsReason, TlsStatus};

    fn policies(access: DefaultAccess) -> DefaultServerPolicies {
        DefaultServerPolicies::new("test", access, Duration::from_secs(10), [25].into())
    }

    #[test]
    fn ports_are_opaque_where_detection_is_disabled_or_nothing_is_let_in() {
        let allow = DefaultAccess::Allow {
            networks: ClientNetwork::all(),
            authenticated: false,
        };
        let allow = policies(allow);
        let is_opaque = |policies: &DefaultServerPolicies, port| {
            policies.of_port(port).protocol == ServerProtocol::Opaque
        };
        assert_eq!(
            (is_opaque(&allow, 25), is_opaque(&allow, 80)),
            (true, false)
        );
        let deny = policies(DefaultAccess::Deny);
        assert_eq!((is_opaque(&deny, 25), is_opaque(&deny, 80)), (true, true));
    }

    #[test]
    fn a_client_in_the_same_pod_needs_an_identity_as_well() {
        let authenticated = policies(DefaultAccess::Allow {
            networks: ClientNetwork::all(),
            authenticated: true,
        });
        let policy = authenticated.of_port(80);
        let client = ([127, 0, 0, 1], 4000).into();
        let plain = TlsStatus::None(NoTlsReason::NoTlsFromRemote);
        let denial = policy.authorize_request(0, client, &plain).unwrap_err();
        assert_eq!(denial.nearest.unwrap().unmet, UnmetCondition::NoTls);
        let named = TlsStatus::Meshed(Some("web.local".parse().unwrap()));
        assert!(policy.authorize_request(0, client, &named).is_ok());
        let spiffe = TlsStatus::Meshed(Some("spiffe://local/web".parse().unwrap()));
        assert!(policy.authorize_request(0, client, &spiffe).is_err());
    }
}
