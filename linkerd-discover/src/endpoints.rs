//! The endpoints of a destination, as consumers see them.

use indexmap::IndexMap;
use linkerd_proxy_core::{endpoint::Endpoint, subscription::Status};
use std::{net::SocketAddr, sync::Arc};
use tokio::time::Instant;

/// The resolution of a destination.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// The control plane has not answered yet.
    Pending,
    /// The endpoints.
    Known(Arc<EndpointSet>),
    /// The control plane refused for good.
    Rejected(Arc<Status>),
}

/// An immutable snapshot of a destination's endpoints.
#[derive(Clone, Debug)]
pub struct EndpointSet {
    /// The endpoints, by address. An endpoint with unchanged metadata keeps its `Arc` from the set before.
    ///
    /// At least one weight is above 0 unless the set is empty.
    pub endpoints: Arc<IndexMap<SocketAddr, Arc<Endpoint>>>,
    /// Whether the service exists; `None` before the control plane's answer.
    pub exists: Option<bool>,
    /// Rises with each update.
    pub generation: u64,
    /// The time at which the update that led to this set was received.
    pub received_at: Instant,
}

impl EndpointSet {
    /// Whether there is no endpoint.
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }
}

impl Resolution {
    /// The endpoints, if they are known.
    pub fn known(&self) -> Option<&Arc<EndpointSet>> {
        match self {
            Self::Known(set) => Some(set),
            Self::Pending | Self::Rejected(_) => None,
        }
    }
}
