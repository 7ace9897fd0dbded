//! Failures of the command `explain`.

/// A failure to explain.
pub(super) enum Failure {
    /// The query or the mesh file is invalid.
    Usage(String),
    /// The proxy does not answer.
    Unanswered(String),
}
