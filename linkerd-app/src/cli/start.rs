//! The start of a command: its logger, and the report of a failure.

use crate::{
    config::{EXIT_USAGE, Env, LogConfig},
    logging::{self, LogClock, Logger},
    process,
};
use std::{error::Error, process::ExitCode};

/// Installs the logger, and logs the build.
pub(super) fn start_logging(env: &Env, clock: LogClock) -> Result<Option<Logger>, ExitCode> {
    match logging::install(&LogConfig::load(env), clock) {
        Ok(log) => {
            // The target of all lines about the start.
            tracing::info!(target: "linkerd_app::cli", "{}", process::banner());
            Ok(log)
        }
        Err(error) => {
            eprintln!("{error}");
            Err(ExitCode::from(EXIT_USAGE))
        }
    }
}

/// Reports an error on standard error; returns the exit code.
pub(super) fn failed_to_start(error: &(dyn Error + 'static)) -> ExitCode {
    eprintln!("Initialization failure: {error}");
    ExitCode::FAILURE
}
