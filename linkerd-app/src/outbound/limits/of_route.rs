//! The limits of a route.

use linkerd_profiles::{RetryPolicy, Timeouts};
use std::rc::Rc;

/// Timeouts and retries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// The timeouts.
    pub timeouts: Timeouts,
    /// The retries.
    pub retry: Option<Rc<RetryPolicy>>,
}
