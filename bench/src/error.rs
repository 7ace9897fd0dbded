//! What can go wrong in the harness, in words that tell what to do.

use std::io;

/// Why a comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool is not installed.
    #[error("{program} is not installed; on Debian: apt-get install {package}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A command could not be run, or ended with an error.
    #[error("{command}: {reason}")]
    Command {
        /// What was run.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A file or a socket.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// An answer that is not understood.
    #[error("{what} is not understood: {text:?}")]
    Unexpected {
        /// Whose answer.
        what: &'static str,
        /// The answer, cut short.
        text: String,
    },
    /// Anything else, told whole.
    #[error("{0}")]
    Other(String),
}

/// The result of anything in the harness.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A text that is not understood.
    pub fn unexpected(what: &'static str, text: &str) -> Self {
        let text = text.chars().take(MAX_QUOTE).collect();
        Self::Unexpected { what, text }
    }
}

/// Tells what was done when a file or a socket failed.
pub trait Context<T> {
    /// Adds what was done.
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
