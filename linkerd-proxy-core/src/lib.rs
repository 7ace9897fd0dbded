//! Types and parts that all stacks of the proxy share.

pub mod backoff;
pub mod crowd;
pub mod destination;
pub mod drain;
pub mod endpoint;
pub mod error;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod readiness;
pub mod reason;
pub mod reconnect;
pub mod stack;
pub mod subscription;
pub mod task;
pub mod tls;
pub mod trace;
pub mod transport;
pub mod yielding;

pub use backoff::{Backoff, InvalidBackoff};
pub use destination::{Destination, InvalidDestination};
pub use endpoint::{EndpointState, EndpointStatus};
pub use error::{Answer, BoxError, Error, Rejected};
pub use readiness::Readiness;
pub use reason::{Reason, Unavailable};
pub use stack::{NewService, ObserveLayer, RcLayer, Refusable, Shared, StageNames};
