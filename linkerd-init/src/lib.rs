//! The redirection of a pod's traffic to its proxy, as an init container sets it up.
//!
//! - [`Redirection`] and its [rules](Redirection::script) are pure: a script for `iptables-restore`.
//! - [`apply()`] runs it: all families and settings are changed, or, if one cannot be, none. A second run changes nothing.
//! - [`check()`] verifies from inside of a pod that connections from it reach the proxy's port; [`inbound_rules()`] looks for the
//!   rules of connections to it.

mod apply;
mod backend;
mod capabilities;
mod check;
mod inbound;
mod kernel;
mod ports;
mod rules;
mod tools;
mod undo;

pub use apply::{Applied, Change, apply};
pub use capabilities::drop_net_raw;
pub use check::{CheckError, NetworkCheck, check};
pub use inbound::{InboundRules, inbound_rules};
pub use kernel::enter_namespace;
pub use ports::{PortRange, PortRangeError};
pub use rules::{Hooks, Redirection, RedirectionError};
pub use tools::{Family, Tools};

/// A redirection that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A tool cannot be run.
    #[error("{program} cannot be run: {error}; {}", remedy(program))]
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
    /// A step failed after others.
    #[error("{error}; {state}")]
    Incomplete {
        /// The failure.
        error: Box<InitError>,
        /// The state of the earlier steps.
        state: String,
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

/// The fix for a program that cannot be run.
fn remedy(program: &str) -> &'static str {
    match program.contains("ip6tables") {
        true => "install it, or redirect IPv4 only by --ipv6=false",
        false => "install iptables, or name it by --firewall-bin-path",
    }
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
