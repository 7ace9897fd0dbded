//! The service profile of a target.

mod request_match;
mod retry_budget;
mod route;

pub use request_match::ProfileMatch;
pub use retry_budget::{RetryBudget, RetryBudgetSettings};
pub use route::ProfileRoute;

use linkerd_proxy_core::{Destination, endpoint::Endpoint};
use std::sync::Arc;

/// The older profile API's configuration of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The logical address: the fully qualified name of the service, and the port of the target.
    pub logical: Option<Destination>,
    /// Whether connections are opaque, whatever the policy says.
    pub opaque: bool,
    /// The targets of a traffic split, which replace the service.
    pub targets: Vec<ProfileTarget>,
    /// The endpoint, if the target is an endpoint and not a service.
    pub endpoint: Option<Arc<Endpoint>>,
    /// The routes, in their order.
    pub routes: Vec<Arc<ProfileRoute>>,
    /// The retry budget, shared by all routes.
    pub retry_budget: Option<RetryBudgetSettings>,
}

/// A share of a traffic split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileTarget {
    /// The service.
    pub destination: Destination,
    /// The share of the service; above 0, and all shares together fit a `u32`.
    pub weight: u32,
}
