//! The name of a service that a peer wants this proxy to forward to.

use linkerd_proxy_core::{Error, Reason};
use std::sync::Arc;

/// A name and a port that a connection is to be forwarded to.
#[derive(Clone, Debug)]
pub struct GatewayName {
    /// The name.
    pub name: Arc<str>,
    /// The port.
    pub port: u16,
}

impl GatewayName {
    /// The error of a connection or request for a name that this proxy does not forward to.
    pub fn not_allowed(&self) -> Error {
        let detail = format!("this proxy is no gateway to {}", self.name);
        Error::new(Reason::GatewayNotAllowed).detail(detail)
    }
}
