//! What users see while the control plane tells of changes, of nothing, or nonsense.

#![allow(clippy::unwrap_used, missing_docs)]

mod absence;
mod changes;
mod nonsense;
mod policies;
