//! The redirection of a pod's traffic to its proxy, as an init container sets it up.
//!
//! - [`Redirection`] and its [rules](Redirection::script) are pure: a script for `iptables-restore`.
//! - [`apply()`] runs it: a table is changed as a whole or not at all, and a second run changes nothing.
//! - [`check()`] verifies from inside of a pod that connections reach the proxy's port.

mod apply;
mod capabilities;
mod check;
mod ports;
mod rules;

pub use apply::{Applied, Family, Tools, apply, enter_namespace, set_close_wait_timeout};
pub use check::{CheckError, NetworkCheck, check};
pub use ports::{PortRange, PortRangeError};
pub use rules::{Hooks, Redirection, RedirectionError};

/// A redirection that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A tool cannot be run.
    #[error(
        "{program} cannot be run: {error}; install iptables, or name it by --firewall-bin-path"
    )]
    Missing {
        /// The program.
        program: String,
        /// The cause.
        error: std::io::Error,
    },
    /// A tool failed. Nothing was changed in its table.
    #[error("{program} failed: {reason}{}", hint(reason))]
    Failed {
        /// The program.
        program: String,
        /// The error message of the program.
        reason: String,
    },
    /// A namespace or a setting of the kernel cannot be used.
    #[error("{path}: {error}")]
    File {
        /// The path of the namespace or setting.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
}

/// The usual cause of a failure.
fn hint(reason: &str) -> &'static str {
    let reason = reason.to_ascii_lowercase();
    if reason.contains("permission denied") || reason.contains("not permitted") {
        return " (the capabilities NET_ADMIN and NET_RAW are needed)";
    }
    if reason.contains("table does not exist") || reason.contains("can't initialize") {
        return " (the kernel lacks this table: try --iptables-mode nft or legacy, or --ipv6=false if only IPv6 is missing)";
    }
    ""
}
