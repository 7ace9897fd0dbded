//! The parts of a profile that are ignored.

use std::fmt::Display;

/// The invalid parts of a profile, for the log.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    parts: Vec<String>,
    more: usize,
}

impl Ignored {
    /// Adds a part and its error.
    pub(super) fn add(&mut self, part: impl Display, error: impl Display) {
        self.add_part(format_args!("{part}: {error}"));
    }

    /// Adds a part whose text includes the error.
    pub(super) fn add_part(&mut self, part: impl Display) {
        if self.parts.len() < MAX_NAMED {
            self.parts.push(part.to_string());
        } else {
            self.more += 1;
        }
    }

    /// The parts; only the first ones are named.
    pub(super) fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.parts.push(format!("{} more", self.more));
        }
        self.parts
    }
}

/// Enough for a log line, which a profile of a thousand broken routes would overflow.
const MAX_NAMED: usize = 20;
