//! Errors of a configuration, and their report.

use std::fmt;

/// The exit code for an invalid configuration: EX_USAGE of `sysexits.h`.
pub const EXIT_USAGE: u8 = 64;

/// One error of a configuration.
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
        /// The accepted form.
        expected: &'static str,
        /// A suggested value, if there is one.
        fix: Option<String>,
    },
    /// The destination controller is not set.
    #[error("{addr} must be set: the proxy has no destination controller to ask")]
    NoDestination {
        /// The variable of its address.
        addr: &'static str,
    },
    /// The policy controller is not set.
    #[error("{missing} must be set: {}", no_policy(missing))]
    NoPolicy {
        /// The missing variable.
        missing: &'static str,
    },
    /// Parts of the identity are not set.
    #[error("{} must be set: without, the proxy cannot have an identity, of which {found} is set", .missing.join(", "))]
    NoIdentity {
        /// A variable that is set.
        found: &'static str,
        /// The missing variables.
        missing: Vec<&'static str>,
        /// The suggested fix, if there is one.
        fix: Option<String>,
    },
    /// Values are valid alone, but not together.
    #[error("{problem}")]
    Inconsistent {
        /// The conflict, with the names of the variables.
        problem: String,
        /// The suggested fix.
        fix: Option<String>,
    },
}

/// All errors of a configuration. Its `Display` is a report of one line for each error, followed by the fix where one
/// is known, and of the warnings, since a misspelt name is often the reason why another one is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The errors; never empty.
    pub errors: Vec<ConfigError>,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl ConfigError {
    /// The suggested fix, if known.
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Invalid { fix, .. }
            | Self::Inconsistent { fix, .. }
            | Self::NoIdentity { fix, .. } => fix.as_deref(),
            Self::NoDestination { .. } => {
                Some("set it to HOST:PORT, and the name too unless it is on loopback")
            }
            Self::NoPolicy { missing } if is_workload(missing) => Some(
                "set it to what the policy controller knows this workload by, such as {\"ns\":\"default\",\"pod\":\"web-0\"}",
            ),
            Self::NoPolicy { .. } => {
                Some("set it to HOST:PORT, which may be that of the destination controller")
            }
            Self::NotUnicode { .. } => None,
        }
    }
}

fn no_policy(missing: &str) -> &'static str {
    match is_workload(missing) {
        true => "the policy controller has nothing to know this proxy by",
        false => "the proxy has no policy controller to ask",
    }
}

/// Whether the variable is the one that names the workload, not the address.
fn is_workload(variable: &str) -> bool {
    variable.ends_with("_WORKLOAD")
}

impl ConfigErrors {
    /// The error in the incumbent's words, which tools may look for.
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
