//! The last line of a proxy or controller that does not start.

use crate::{
    config::{Env, LogConfig, LogFormat},
    logging::Logger,
    utc::{Fraction, UtcClock},
};
use serde_json::json;
use std::{error::Error, process::ExitCode, time::SystemTime};

/// Writes the last line to standard error, in the log's format, after the log's own lines.
pub(super) struct LastLine {
    format: LogFormat,
    log: Option<Logger>,
}

impl LastLine {
    /// A line in the format that the environment sets.
    pub(super) fn new(env: &Env, log: Option<Logger>) -> Self {
        let format = LogConfig::load(env).format;
        Self { format, log }
    }

    /// Reports an error of the start; returns the exit code.
    pub(super) fn failed(&self, error: &(dyn Error + 'static)) -> ExitCode {
        self.print(&format!("Initialization failure: {error}"), None);
        ExitCode::FAILURE
    }

    /// Prints the message and its hint: a line for each, or one object of JSON.
    pub(super) fn print(&self, message: &str, hint: Option<&str>) {
        if let Some(log) = &self.log {
            log.flush();
        }
        match self.format {
            LogFormat::Plain => {
                eprintln!("{message}");
                if let Some(hint) = hint {
                    eprintln!("{hint}");
                }
            }
            LogFormat::Json => eprintln!("{}", json_line(message, hint, SystemTime::now())),
        }
    }
}

/// A line with the fields of the log's lines.
fn json_line(message: &str, hint: Option<&str>, now: SystemTime) -> String {
    let mut time = Vec::new();
    UtcClock::default().push(&mut time, now, Fraction::Micros);
    let mut fields = json!({ "message": message });
    if let Some(hint) = hint {
        fields["hint"] = hint.into();
    }
    let line = json!({
        "timestamp": String::from_utf8_lossy(&time),
        "level": "ERROR",
        "fields": fields,
        "target": "linkerd_app::cli",
    });
    line.to_string()
}
