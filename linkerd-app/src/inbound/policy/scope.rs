//! One policy of one address, and the labels that both give.

use super::policy_context::PolicyContext;
use crate::metrics::{inbound_meta_labels, target_labels};
use linkerd_profiles::ServerPolicy;
use linkerd_proxy_core::metrics::Labels;
use std::{net::SocketAddr, rc::Rc, sync::Arc};

/// One policy of one address.
pub struct PolicyScope {
    /// The parts that are shared by all ports.
    pub ctx: Rc<PolicyContext>,
    /// The address that peers dialled.
    pub addr: SocketAddr,
    /// The policy of its port.
    pub policy: Arc<ServerPolicy>,
}

impl PolicyScope {
    /// `srv_*`.
    pub fn server_labels(&self, labels: Labels) -> Labels {
        inbound_meta_labels(labels, "srv", &self.policy.meta).with("srv_port", self.addr.port())
    }

    /// `target_*`, `srv_*`.
    pub fn target_labels(&self, labels: Labels) -> Labels {
        self.server_labels(target_labels(labels, self.addr))
    }
}
