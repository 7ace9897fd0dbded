use crate::lookups::LookupKind;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A proxy that does not start, does not stop, or does not do what is waited for.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The program cannot be run.
    #[error("{} cannot be run: {error}; build linkerd-proxy, and put its folder into PATH or its path into `ProxyBuilder::program`", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The process ended too early.
    #[error("the proxy ended, and there was no {wanted}; its output:\n{output}")]
    Ended {
        /// The line, state or end that was waited for.
        wanted: String,
        /// The whole output.
        output: String,
    },
    /// The wait was too long.
    #[error("no {wanted} within {within:?}; the proxy's output:\n{output}")]
    Late {
        /// The line, state or end that was waited for.
        wanted: String,
        /// The limit.
        within: Duration,
        /// The output so far.
        output: String,
    },
    /// The proxy has no such look-up, whose change it could get.
    #[error(
        "the proxy has not looked up {kind:?} {target:?}, but {known:?}; send it a request first"
    )]
    NotLookedUp {
        /// The kind of the look-up.
        kind: LookupKind,
        /// The target of the look-up.
        target: String,
        /// The targets of the kind that it has looked up.
        known: Vec<String>,
    },
    /// A line of the log has no address of a listener.
    #[error("no address in the proxy's line {line:?}")]
    Address {
        /// The line.
        line: String,
    },
    /// The admin server gives no such answer.
    #[error("{path} of the admin server: {reason}; the proxy's output:\n{output}")]
    Admin {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
        /// The output so far.
        output: String,
    },
    /// The process cannot be awaited or signalled.
    #[error("the proxy's process: {0}")]
    Process(#[from] io::Error),
}
