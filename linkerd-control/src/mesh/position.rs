//! Positions in a mesh file.

use super::error::Problem;

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Position {
    /// The start of a text.
    pub(super) const START: Self = Self { line: 1, column: 1 };

    pub(super) fn problem(self, reason: impl Into<String>) -> Problem {
        Problem {
            line: self.line,
            column: self.column,
            reason: reason.into(),
        }
    }
}
