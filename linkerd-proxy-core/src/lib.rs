//! The vocabulary and the parts that every stack of the proxy shares.

pub mod availability;
pub mod backoff;
pub mod drain;
pub mod endpoint;
pub mod error;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod readiness;
pub mod reason;
pub mod redial;
pub mod stack;
pub mod subscription;
pub mod transport;
pub mod yielding;

pub use availability::{Availability, EndpointState};
pub use backoff::Backoff;
pub use error::{BoxError, Error, Failed};
pub use readiness::Readiness;
pub use reason::{Reason, Unavailable};
pub use stack::{NewService, Shared, Stack};
