//! How the parts of the proxy are wired and run.

pub mod admin;
pub mod config;
pub mod logging;
pub mod process;
pub mod quickstart;
