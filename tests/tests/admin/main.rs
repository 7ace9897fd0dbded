//! The operator's view: admin server, start, shutdown.

#![allow(clippy::unwrap_used, missing_docs)]

mod endpoints;
mod logging;
mod policy;
mod shutdown;
mod signals;
mod start;
