//! The context of the admin server's endpoints.

use super::policy::AdminPolicy;
use crate::{
    config::{self, ConsoleAccess},
    explain::{Explainer, InboundExplainer},
    logging,
    tap::TapRegistry,
};
use futures::future::BoxFuture;
use linkerd_proxy_core::{metrics::Registry, readiness::Readiness};
use serde_json::Value;
use std::{cell::Cell, time::Duration};
use tokio::sync::mpsc;

/// The parts of the proxy that the admin server reads and controls.
pub struct AdminContext {
    /// The policy of its port. `None`, without an inbound listener: all requests are let in.
    pub policy: Option<AdminPolicy>,
    /// Its open connections.
    pub connections: Cell<usize>,
    /// All metrics.
    pub registry: Registry,
    /// Retention of series without an owner.
    pub retain: Duration,
    /// Readiness of the proxy.
    pub readiness: Readiness,
    /// Controllers that were not reached yet, with the cause: they do not delay readiness.
    pub unreached: Box<dyn Fn() -> Vec<String>>,
    /// The logger, if there is one: its filter, and streams of its events.
    pub log: Option<logging::Logger>,
    /// The name of this machine, accepted as `Host` on the paths for this host.
    pub hostname: Option<String>,
    /// The environment that the proxy was started with.
    pub env: config::Env,
    /// Receives requests to shut down. `None`: `/shutdown` is disabled.
    pub shutdown: Option<mpsc::Sender<()>>,
    /// Answers `/explain`.
    pub explain: Explainer,
    /// Answers `/explain` for inbound requests.
    pub explain_inbound: InboundExplainer,
    /// The clients that may open the console, and read its data.
    pub console: ConsoleAccess,
    /// The taps, which `/tap` adds to.
    pub taps: TapRegistry,
    /// The sections of `/state`.
    pub sections: Vec<StateSection>,
}

/// A part of `/state`.
pub struct StateSection {
    /// Its key.
    pub name: &'static str,
    /// Collects it. It may query other threads; a section that takes longer than a second is left out.
    pub collect: Box<dyn Fn() -> BoxFuture<'static, Value> + Send + Sync>,
}

/// Probes, a scraper or two and people need a handful. One more closes the least recently used one, so that a client
/// with many silent connections locks out no probe.
pub(super) const MAX_CONNECTIONS: usize = 100;
