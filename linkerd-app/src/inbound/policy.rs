//! Stage 3: the default policy of a port (`LINKERD2_PROXY_INBOUND_DEFAULT_POLICY`).

use crate::config::{Config, DefaultPolicy};
use linkerd_proxy_core::{Error, Reason, metrics::Labels, transport::ClientInfo};
use std::net::{IpAddr, SocketAddr};

/// The policy of a connection.
pub struct Policy<'a> {
    config: &'a Config,
    port: u16,
    /// Whether its bytes are relayed without a look.
    pub opaque: bool,
}

impl<'a> Policy<'a> {
    /// The policy of the port that was dialled.
    pub fn of(config: &'a Config, destination: SocketAddr) -> Self {
        let inbound = &config.inbound;
        let port = destination.port();
        Self {
            config,
            port,
            // What is denied is not even looked at.
            opaque: inbound.default_policy == DefaultPolicy::Deny
                || inbound.opaque_ports.contains(&port),
        }
    }

    /// Whether a client is let in.
    pub fn authorize(&self, client: &ClientInfo) -> Result<(), Error> {
        let identity = client.tls.identity();
        // Suffixes of names do not match URIs.
        let is_authenticated = identity.is_some_and(|identity| identity.dns_name().is_some());
        let client = client.addr;
        let in_cluster = |ip: IpAddr| self.config.control.cluster_networks.contains(ip);
        let allowed = match self.config.inbound.default_policy {
            DefaultPolicy::AllUnauthenticated | DefaultPolicy::Audit => true,
            DefaultPolicy::ClusterUnauthenticated => in_cluster(client.ip()),
            DefaultPolicy::AllAuthenticated => is_authenticated,
            DefaultPolicy::ClusterAuthenticated => is_authenticated && in_cluster(client.ip()),
            DefaultPolicy::Deny => false,
        };
        match allowed {
            true => Ok(()),
            false => Err(Error::new(Reason::Unauthorized)
                .peer(client)
                .detail(format!(
                    "unauthorized connection on {}",
                    self.config.inbound.default_policy.name()
                ))),
        }
    }

    /// `srv_*`.
    pub fn server_labels(&self, labels: Labels) -> Labels {
        self.named(labels, "srv").with("srv_port", self.port)
    }

    /// `srv_*`, `route_*`, `authz_*`.
    pub fn request_labels(&self, labels: Labels) -> Labels {
        let labels = self
            .server_labels(labels)
            .with("route_group", "")
            .with("route_kind", "default")
            .with("route_name", "default");
        self.named(labels, "authz")
    }

    fn named(&self, labels: Labels, prefix: &str) -> Labels {
        labels
            .with(&format!("{prefix}_group"), "")
            .with(&format!("{prefix}_kind"), "default")
            .with(
                &format!("{prefix}_name"),
                self.config.inbound.default_policy.name(),
            )
    }
}
