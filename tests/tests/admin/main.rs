//! What operators see: the admin server, the start, the end.

#![allow(clippy::unwrap_used, missing_docs)]

mod endpoints;
mod logging;
mod shutdown;
mod signals;
mod start;
