//! A reference from a service to another, which gets a part of its requests.

use super::form::{Given, Spanned};

/// An unresolved reference.
#[derive(Debug)]
pub(super) struct BackendRef {
    pub(super) service: Spanned<String>,
    pub(super) weight: Given<i128>,
}
