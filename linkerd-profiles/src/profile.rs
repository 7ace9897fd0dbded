//! The service profile of a target.

use linkerd_proxy_core::{Destination, endpoint::Endpoint};
use std::sync::Arc;

/// The older profile API's configuration of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The logical address: the fully qualified name of the service, and the port of the target.
    pub logical: Option<Destination>,
    /// Connections are opaque, whatever the policy says.
    pub opaque: bool,
    /// The targets of a traffic split, which replace the service.
    pub targets: Vec<ProfileTarget>,
    /// The target is this endpoint and not a service.
    pub endpoint: Option<Arc<Endpoint>>,
    /// Whether the profile has routes.
    pub has_routes: bool,
}

/// A share of a traffic split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileTarget {
    /// The service.
    pub destination: Destination,
    /// Its share; above 0, and all shares together fit a `u32`.
    pub weight: u32,
}
