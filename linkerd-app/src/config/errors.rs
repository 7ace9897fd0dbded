//! What can be wrong with a configuration, and how it is told.

use std::fmt;

/// The exit code of a proxy whose configuration is refused: EX_USAGE of `sysexits.h`.
pub const EXIT_USAGE: u8 = 64;

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The value is not UTF-8.
    #[error("{name} is not encoded in Unicode")]
    NotUnicode {
        /// The variable.
        name: &'static str,
    },
    /// The value does not follow the grammar of its variable.
    #[error("{name}={value:?} is not valid: expected {expected}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value, shortened when it is long.
        value: String,
        /// The form that is accepted.
        expected: &'static str,
        /// What to write instead, when that can be guessed.
        fix: Option<String>,
    },
    /// There is no destination controller to ask.
    #[error("{addr} must be set: the proxy has no destination controller to ask")]
    NoDestination {
        /// The variable of its address.
        addr: &'static str,
    },
    /// There is no policy controller to ask.
    #[error("{missing} must be set: the proxy has no policy controller to ask")]
    NoPolicy {
        /// The variable that is missing.
        missing: &'static str,
    },
    /// Each value is fine alone, but not with another.
    #[error("{problem}")]
    Inconsistent {
        /// What does not fit, with the names of the variables.
        problem: String,
        /// What to do about it.
        fix: Option<String>,
    },
}

/// Everything that is wrong with a configuration. Its `Display` is a report of one line for each error, followed by the
/// fix where one is known, and of the warnings, since a misspelt name is often the reason why another one is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// What is wrong; never empty.
    pub errors: Vec<ConfigError>,
    /// What was remarked on the way.
    pub warnings: Vec<String>,
}

impl ConfigError {
    /// What to do about it, when that is known.
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Invalid { fix, .. } | Self::Inconsistent { fix, .. } => fix.as_deref(),
            Self::NoDestination { .. } => {
                Some("set it to HOST:PORT, and the name too unless it is on loopback")
            }
            Self::NotUnicode { .. } | Self::NoPolicy { .. } => None,
        }
    }
}

impl ConfigErrors {
    /// The error in the words that tooling around the incumbent may look for.
    pub fn summary(&self) -> &'static str {
        let all_of = |kind: fn(&ConfigError) -> bool| self.errors.iter().all(kind);
        if all_of(|e| matches!(e, ConfigError::NoPolicy { .. })) {
            "no policy service configured"
        } else if all_of(|e| {
            matches!(
                e,
                ConfigError::NoDestination { .. } | ConfigError::NoPolicy { .. }
            )
        }) {
            "no destination service configured"
        } else {
            "invalid environment variable"
        }
    }

    /// The last line on standard error before the proxy exits with [`EXIT_USAGE`].
    pub fn summary_line(&self) -> String {
        format!("Invalid configuration: {}", self.summary())
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        for error in &self.errors {
            lines.push(error.to_string());
            lines.extend(error.fix().map(|fix| format!("  fix: {fix}")));
        }
        lines.extend(
            self.warnings
                .iter()
                .map(|warning| format!("warning: {warning}")),
        );
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
