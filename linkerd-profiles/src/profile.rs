//! The service profile of a target.

use linkerd_proxy_core::endpoint::Endpoint;
use std::sync::Arc;

/// What the older profile API says of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The fully qualified name of the service, in lower case and without a trailing dot.
    pub name: Option<String>,
    /// The port of the look-up, which belongs to the name.
    pub port: u16,
    /// Connections are opaque, whatever the policy says.
    pub opaque: bool,
    /// What traffic is split between, instead of going to the service.
    pub targets: Vec<ProfileTarget>,
    /// The target is this endpoint and not a service.
    pub endpoint: Option<Arc<Endpoint>>,
    /// Whether the profile has routes.
    pub has_routes: bool,
}

/// A share of a traffic split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileTarget {
    /// The name of a service.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// Its share; above 0, and all shares together fit a `u32`.
    pub weight: u32,
}

impl Profile {
    /// The logical address: the service's `name:port`.
    pub fn logical(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        Some(format!("{name}:{}", self.port))
    }
}
