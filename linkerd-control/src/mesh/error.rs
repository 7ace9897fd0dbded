use std::fmt;

/// A refused mesh file. Its display has one line for each problem: `file:line:column: reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshError {
    /// It could not be read.
    Read {
        /// The file's name.
        file: String,
        /// The operating system's error.
        reason: String,
    },
    /// It could be read, but is invalid.
    Invalid {
        /// The file's name.
        file: String,
        /// All problems, in the order of the file. A syntax error hides those after it.
        problems: Vec<Problem>,
    },
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

impl fmt::Display for MeshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, reason } => write!(f, "{file}: cannot be read: {reason}"),
            Self::Invalid { file, problems } => {
                for (n, problem) in problems.iter().enumerate() {
                    let newline = if n == 0 { "" } else { "\n" };
                    write!(f, "{newline}{file}:{problem}")?;
                }
                Ok(())
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
