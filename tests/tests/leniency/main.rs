//! Clients that write what the proxy does not take for HTTP and a real server does, and clients of other protocols.

#![allow(clippy::unwrap_used, missing_docs)]

mod application;
mod protocols;
mod smuggling;
