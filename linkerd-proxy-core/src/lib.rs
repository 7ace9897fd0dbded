//! The vocabulary and the parts that every stack of the proxy shares.

pub mod backoff;
pub mod error;
pub mod http;
pub mod metrics;
pub mod reason;
pub mod transport;

pub use backoff::Backoff;
pub use error::{BoxError, Error, Failed};
pub use reason::{Reason, Unavailable};
