//! Configuration: reads a snapshot of the environment into a [`Config`], or reports all of its errors.
//!
//! Every variable is one row of [`variables`]: name, grammar, unit, default, documentation. The loader, the warnings
//! about unknown names, `docs/env.md` and the print-out of the effective configuration all come from those rows, and
//! no name is written anywhere else.
//!
//! Invariants: no code outside this module reads the environment; all invalid values are reported together; a loaded
//! `Config` has passed every check.

pub mod docs;
pub mod grammar;
pub mod variables;

mod access_log;
mod cgroup;
mod connect;
mod cores;
mod effective;
mod env;
mod errors;
mod identity;
mod load;
mod mask;
mod matches;
mod printed_requests;
mod reader;
mod settings;
mod tap;
#[cfg(test)]
mod tests;
mod trace;
mod unknown;

pub use access_log::{AccessLogConfig, AccessLogFormat, AccessLogOutput};
pub use cgroup::CpuQuota;
pub use connect::{ConnectConfig, ControlAddr};
pub use cores::{Cores, WorkerDecision, decide_workers};
pub use effective::{
    EffectiveValue, ValueSource, effective_json, effective_text, inspect_effective,
};
pub use env::Env;
pub use errors::{ConfigError, ConfigErrors, EXIT_USAGE};
pub use grammar::Addr;
pub use identity::{AnchorsConfig, CertifyConfig, IdentityConfig, IssuerConfig, SpireConfig};
pub use load::LoadedConfig;
pub use mask::masked;
pub use matches::{NameSuffixes, Networks};
pub use printed_requests::PrintedRequests;
pub use settings::{
    AdminConfig, BalancerConfig, Config, ConsoleAccess, ControlConfig, DefaultPolicy,
    DiscoveryConfig, DnsConfig, ForwardedHeader, HedgeSettings, InboundConfig, LogConfig,
    LogFormat, OutboundConfig, ShutdownConfig, TraceConfig, WorkersConfig,
};
pub use tap::{TapConfig, TapServerConfig};
pub use trace::TraceResourceConfig;
pub(crate) use unknown::distance;
pub use unknown::is_own_variable;
pub use variables::{VARIABLES, Variable, VariableStatus};
