//! Errors of policies of ports.

use crate::convert::policy::InvalidPolicy;

/// The reason why the policy of a port is invalid. All of it is refused: half a policy could let in whom the other half
/// keeps out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidServer {
    /// A field that must be set is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The detection timeout is negative or malformed.
    #[error("the detection timeout is no duration")]
    DetectTimeout,
    /// An authorization has no network, so that it could not admit anybody.
    #[error("an authorization has no networks")]
    NoNetworks,
    /// A network is malformed.
    #[error("a network of an authorization is none: {0}")]
    Network(String),
    /// The labels that name a resource have no name.
    #[error("a resource's labels have no name")]
    NoName,
    /// A limit is for an identity that cannot be.
    #[error("a rate limit is for an impossible identity: {0}")]
    Identity(String),
    /// A condition or a filter of a route is invalid.
    #[error(transparent)]
    Route(#[from] InvalidPolicy),
}
