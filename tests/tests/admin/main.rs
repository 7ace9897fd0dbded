//! The operator's view: admin server, start, shutdown.

#![allow(clippy::unwrap_used, missing_docs)]

mod browser;
mod browser_sections;
mod console;
mod endpoints;
mod logging;
mod policy;
mod service_manager;
mod shutdown;
mod signals;
mod start;
mod state;
