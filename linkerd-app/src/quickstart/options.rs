//! Options of the quickstart, and its proxy.

use crate::config::{self, PrintedRequests};
use std::{error::Error, net::SocketAddr, path::PathBuf};

/// The started proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sidecars {
    /// The sidecar of the client whose requests are shown.
    pub(super) frontend: ProxyAddresses,
    /// The sidecar of the backends.
    pub(super) web: ProxyAddresses,
    /// The sidecar of the guest.
    pub(super) guest: ProxyAddresses,
}

/// Addresses of a started proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyAddresses {
    /// Outbound traffic.
    pub outbound: SocketAddr,
    /// Inbound traffic, if it takes any.
    pub inbound: Option<SocketAddr>,
    /// The admin server.
    pub admin: SocketAddr,
}

/// Starts the proxies.
pub trait StartProxy {
    /// Starts one on new threads, with this environment, and returns once it listens.
    fn start(&mut self, env: config::Env) -> Result<ProxyAddresses, Box<dyn Error + Send + Sync>>;
}

/// Options of the quickstart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuickstartOptions {
    /// Runs for a while without a terminal; the exit code shows whether all requests succeeded.
    pub once: bool,
    /// Requests a second.
    pub rate: u32,
    /// The time to run with `once`, in seconds.
    pub seconds: u32,
    /// The mesh file, which is written if there is none. `None`: `linkerd-quickstart.yaml` in the current directory, or
    /// with `once` a file that is removed at the end.
    pub file: Option<PathBuf>,
    /// Lines for requests, printed by the sidecars. On a terminal they replace the table.
    pub printed: PrintedRequests,
}

impl Default for QuickstartOptions {
    fn default() -> Self {
        Self {
            once: false,
            rate: 50,
            seconds: 5,
            file: None,
            printed: PrintedRequests::default(),
        }
    }
}
