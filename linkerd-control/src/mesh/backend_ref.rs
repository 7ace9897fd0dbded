//! A reference of a service to another, which gets some of its requests.

use super::form::{Given, Spanned};

/// A reference that is not resolved yet.
#[derive(Debug)]
pub(super) struct BackendRef {
    pub(super) service: Spanned<String>,
    pub(super) weight: Given<i128>,
}
