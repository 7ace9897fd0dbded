//! Endpoint discovery: the endpoints of each destination, as the control plane publishes them.
//!
//! **Sits** between an [`EndpointSource`] and the balancers. One task for each destination, on the
//! control thread, follows one stream for the whole process and publishes immutable snapshots; workers watch them.
//!
//! **Invariants**
//! * The task drains its stream into the latest state, never into a queue: nothing can overflow or be dropped.
//! * The last good state outlives its stream. A new stream replaces it as a whole, so a lost removal heals.
//! * While the control plane is away, no known destination is evicted.
//! * An invalid part of an update costs only its own endpoint, a counter and a warning at a bounded rate.
//! * An endpoint whose metadata did not change keeps its `Arc`, so that consumers can compare pointers.
//!
//! **Never** connects to endpoints, chooses between them, or holds a lock over a wait.
//!
//! [`dns`] resolves the addresses of the control plane itself.

pub mod dns;

mod changes;
mod discovery;
mod endpoint_table;
mod endpoints;
mod feedback;
mod follow;
mod source;

pub use changes::{EndpointChange, EndpointChanges};
pub use discovery::{Discovery, DiscoveryConfig, EndpointWatch, Error};
pub use endpoints::{EndpointSet, Resolution};
pub use feedback::DiscoveryStats;
pub use linkerd_proxy_core::endpoint::{Endpoint, ProtocolHint, ServerTls, ZoneLocality};
pub use source::{EndpointSetChange, EndpointSource, EndpointUpdate, IgnoredPart};
