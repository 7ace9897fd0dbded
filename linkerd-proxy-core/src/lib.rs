//! The vocabulary and the parts that every stack of the proxy shares.

pub mod backoff;
pub mod http;
pub mod transport;

pub use backoff::Backoff;
