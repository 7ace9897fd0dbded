//! How the parts of the proxy are wired and run.

pub mod admin;
pub mod config;
pub mod logging;
pub mod metrics;
pub mod outbound;
pub mod process;
pub mod quickstart;
