//! How the parts of the proxy are wired and run.

pub mod config;
pub mod logging;
pub mod metrics;
pub mod outbound;
