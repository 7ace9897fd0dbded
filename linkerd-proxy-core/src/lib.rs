//! The vocabulary and the parts that every stack of the proxy shares.

pub mod backoff;
pub mod endpoint;
pub mod http;
pub mod subscription;
pub mod transport;

pub use backoff::Backoff;
