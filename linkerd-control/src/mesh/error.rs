use std::fmt;

/// A refused mesh file. Its display has one line for each problem: `file:line:column: reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshError {
    /// The file could not be read.
    Read {
        /// The file's name.
        file: String,
        /// The operating system's error.
        reason: String,
    },
    /// The file could be read, but is invalid.
    Invalid {
        /// The file's name.
        file: String,
        /// The problems. A syntax error hides later problems.
        problems: Problems,
    },
}

/// The problems of a mesh file, sorted by position once the file is refused: the first [`MAX_LISTED`], and the number of
/// further ones. A file in another format may have a million.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<Problem>,
    unlisted: usize,
}

/// A problem in a mesh file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 if it is not known.
    pub line: u64,
    /// The column, from 1; 0 if it is not known.
    pub column: u64,
    /// The problem and its fix.
    pub reason: String,
}

impl Problems {
    /// Adds a problem, or counts it if enough are listed.
    pub(super) fn push(&mut self, problem: Problem) {
        match self.listed.len() < MAX_LISTED {
            true => self.listed.push(problem),
            false => self.unlisted += 1,
        }
    }

    /// The listed problems.
    pub fn listed(&self) -> &[Problem] {
        &self.listed
    }

    /// The number of problems, listed or not.
    pub fn count(&self) -> usize {
        self.listed.len() + self.unlisted
    }

    /// Sorts the problems by their position in the file.
    pub(super) fn sorted(mut self) -> Self {
        self.listed.sort_by_key(|p| (p.line, p.column));
        self
    }
}

/// The most problems listed: as many as a person reads at once.
const MAX_LISTED: usize = 100;

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, reason } => write!(f, "{file}: cannot be read: {reason}"),
            Self::Invalid { file, problems } => {
                for (n, problem) in problems.listed.iter().enumerate() {
                    let newline = if n == 0 { "" } else { "\n" };
                    write!(f, "{newline}{file}:{problem}")?;
                }
                match problems.unlisted {
                    0 => Ok(()),
                    more => write!(f, "\n{file}: and {more} more problems"),
                }
            }
        }
    }
}

impl std::error::Error for MeshError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        write!(f, " {}", self.reason)
    }
}
