//! Wiring of the parts of the proxy.

pub mod access_log;
pub mod admin;
pub mod cli;
pub mod config;
pub mod control;
mod cut;
pub mod dialers;
mod dst_override;
pub mod endpoint_metrics;
pub mod explain;
mod failures;
mod forward;
pub mod identity;
pub mod inbound;
pub mod listeners;
pub mod logging;
pub mod metrics;
pub mod observers;
mod outbound;
pub mod process;
mod profile_metrics;
pub mod proxy;
pub mod quickstart;
mod request_target;
mod response_metrics;
mod route_filters;
pub mod runtime;
mod secrets;
pub mod server;
pub mod tap;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod utc;
pub mod worker;
