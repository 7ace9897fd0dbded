//! Traffic while the control plane sends changes, nothing, or invalid messages.

#![allow(clippy::unwrap_used, missing_docs)]

mod absence;
mod changes;
mod nonsense;
mod policies;
