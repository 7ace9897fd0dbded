//! The default policies of inbound ports, by the configuration.

use crate::config::{Config, DefaultPolicy};
use linkerd_profiles::{ClientNetwork, DefaultAccess, DefaultServerPolicies};

/// The policies of inbound ports until the control plane has sent one (`LINKERD2_PROXY_INBOUND_DEFAULT_POLICY`).
pub fn default_policies(config: &Config) -> DefaultServerPolicies {
    let inbound = &config.inbound;
    let cluster = || {
        let networks = config.control.cluster_networks.iter();
        networks.map(|network| (*network).into()).collect()
    };
    let allow = |networks, authenticated| DefaultAccess::Allow {
        networks,
        authenticated,
    };
    let access = match inbound.default_policy {
        DefaultPolicy::Deny => DefaultAccess::Deny,
        DefaultPolicy::AllUnauthenticated | DefaultPolicy::Audit => {
            allow(ClientNetwork::all(), false)
        }
        DefaultPolicy::AllAuthenticated => allow(ClientNetwork::all(), true),
        DefaultPolicy::ClusterUnauthenticated => allow(cluster(), false),
        DefaultPolicy::ClusterAuthenticated => allow(cluster(), true),
    };
    DefaultServerPolicies::new(
        inbound.default_policy.name(),
        access,
        inbound.detect_timeout,
        inbound.opaque_ports.clone(),
    )
}
