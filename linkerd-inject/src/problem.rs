use std::fmt;

/// An error in the input, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: u64,
    /// The workload, such as `Deployment/web`.
    pub workload: Option<String>,
    /// The problem and its fix.
    pub reason: String,
}

impl Problem {
    pub(crate) fn new(line: u64, reason: impl Into<String>) -> Self {
        Self {
            line,
            workload: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn of(mut self, workload: &str) -> Self {
        self.workload = Some(workload.to_owned());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if let Some(workload) = &self.workload {
            write!(f, "{workload}: ")?;
        }
        f.write_str(&self.reason)
    }
}
