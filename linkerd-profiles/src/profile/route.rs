//! Routes of a profile.

use super::request_match::ProfileMatch;
use linkerd_proxy_core::http::ResponseClasses;
use std::{collections::BTreeMap, time::Duration};

/// A route of a profile. The first route whose condition a request meets takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRoute {
    /// The condition on requests.
    pub condition: ProfileMatch,
    /// Labels of the route's metrics (`rt_*`).
    pub labels: BTreeMap<String, String>,
    /// The classes of responses: successes and failures.
    pub classes: ResponseClasses,
    /// The limit from a request to the headers of its response, retries included.
    pub timeout: Option<Duration>,
    /// Whether failures are retried, within the budget of the profile.
    pub is_retryable: bool,
}

impl ProfileRoute {
    /// A route without any features.
    pub fn new(condition: ProfileMatch) -> Self {
        Self {
            condition,
            labels: BTreeMap::new(),
            classes: ResponseClasses::default(),
            timeout: None,
            is_retryable: false,
        }
    }
}
