//! Sources of endpoints, in the proxy's own terms.

use linkerd_proxy_core::{Destination, endpoint::Endpoint, subscription::Call};
use std::{fmt, net::SocketAddr};

/// A source of endpoints: a control plane, a file, a test.
pub trait EndpointSource: Send + Sync + 'static {
    /// Subscribes to the endpoints of a destination.
    ///
    /// The first addition or reset of a subscription replaces the endpoints of earlier ones; later updates change them.
    /// A subscription may have its own stream, or share one stream that serves all destinations. After its end
    /// another follows, within the waits and limits of [`DiscoveryConfig`](crate::DiscoveryConfig). Now and then a second
    /// one is opened in parallel, to check that the endpoints are not stale.
    fn endpoints(&self, destination: &Destination) -> Call<EndpointUpdate>;
}

/// An update of a destination's endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointUpdate {
    /// The change. `None`: no part of the update was valid.
    pub change: Option<EndpointSetChange>,
    /// The invalid parts, which were ignored.
    pub ignored: Vec<IgnoredPart>,
}

/// A change of a destination's endpoints. The lists are not empty.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointSetChange {
    /// Endpoints were added, or have new metadata.
    Add(Vec<Endpoint>),
    /// Endpoints were removed.
    Remove(Vec<SocketAddr>),
    /// All endpoints were removed.
    Clear {
        /// Whether the service exists.
        exists: bool,
    },
}

/// An invalid part of an update.
#[derive(Clone, Debug, PartialEq)]
pub enum IgnoredPart {
    /// An endpoint; the text gives the reason.
    Endpoint(String),
    /// A part of an endpoint's metadata.
    Metadata {
        /// The endpoint.
        addr: SocketAddr,
        /// The part.
        part: &'static str,
    },
}

impl From<EndpointSetChange> for EndpointUpdate {
    fn from(change: EndpointSetChange) -> Self {
        Self {
            change: Some(change),
            ignored: Vec::new(),
        }
    }
}

impl fmt::Display for IgnoredPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint(reason) => reason.fmt(f),
            Self::Metadata { addr, part } => write!(f, "the {part} of {addr} is invalid"),
        }
    }
}
