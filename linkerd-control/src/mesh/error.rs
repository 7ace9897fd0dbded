use std::fmt;

/// Why a mesh file was refused. Its display has one line for each problem: `file:line:column: reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshError {
    /// It could not be read.
    Read {
        /// The file's name.
        file: String,
        /// What the operating system says.
        reason: String,
    },
    /// It could be read and is wrong.
    Invalid {
        /// The file's name.
        file: String,
        /// All that is wrong, in the order of the file. A syntax error hides what comes after it.
        problems: Vec<Problem>,
    },
}

/// One thing that is wrong in a mesh file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 if it is not known.
    pub line: u64,
    /// The column, from 1; 0 if it is not known.
    pub column: u64,
    /// What is wrong and how to mend it.
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
