//! Clients of endpoints: connections, their pools, and the effect of a failure on the request.

mod body;
mod driven;
mod failure;
mod http1;
mod http2;
mod peer;
mod uploading;
mod watched;

pub(super) use body::{ClientBody, Lease, StreamBody};
pub(super) use http1::socket::upgraded_io;
pub use http1::{Http1Client, Http1Pools};
pub use http2::Http2Client;

#[cfg(test)]
pub(super) mod tests;
