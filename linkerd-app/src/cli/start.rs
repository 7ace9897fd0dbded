//! The start of a command that runs on: its logger.

use super::last_line::LastLine;
use crate::{
    config::{EXIT_USAGE, Env, LogConfig},
    logging::{self, LogClock, Logger},
    process,
};
use std::process::ExitCode;

/// Gives up the privilege of `init`, installs the logger, and logs the build. The process has no other thread yet.
pub(super) fn start_logging(env: &Env, clock: LogClock) -> Result<Option<Logger>, ExitCode> {
    let dropped = linkerd_init::drop_net_raw();
    match logging::install(&LogConfig::load(env), clock) {
        Ok(log) => {
            // The target of all lines about the start.
            tracing::info!(target: "linkerd_app::cli", "{}", process::banner());
            if let Err(error) = dropped {
                tracing::warn!(%error, "The capability NET_RAW cannot be given up");
            }
            Ok(log)
        }
        Err(error) => {
            LastLine::new(env, None).print(&error.to_string(), None);
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}
