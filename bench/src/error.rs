//! Errors of the harness, with their fixes.

use std::io;

/// An error of the harness.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool is not installed.
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    Missing {
        /// The name of the tool.
        program: &'static str,
        /// The Debian package of the tool.
        package: &'static str,
    },
    /// A command that could not be run, or failed.
    #[error("{command}: {reason}")]
    Command {
        /// The command.
        command: String,
        /// The error of the command.
        reason: String,
    },
    /// A failed operation on a file or a socket.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// An unexpected answer.
    #[error("{what} is not understood: {text:?}")]
    Unexpected {
        /// The origin of the answer.
        what: &'static str,
        /// The answer, cut short.
        text: String,
    },
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// A result in the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An unexpected answer.
    pub fn unexpected(what: &'static str, text: &str) -> Self {
        let text = text.chars().take(MAX_QUOTE).collect();
        Self::Unexpected { what, text }
    }
}

/// Adds the failed operation to an I/O error.
pub trait Context<T> {
    /// Adds the operation.
    fn context(self, what: impl Into<String>) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what.into(),
            source,
        })
    }
}

const MAX_QUOTE: usize = 400;
