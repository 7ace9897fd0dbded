//! The conditions and limits of a route's retries.

use super::conditions::RetriedResults;
use linkerd_profiles::RetryPolicy;
use linkerd_proxy_core::{Backoff, http::ResponseClasses};
use std::{rc::Rc, time::Duration};

/// The conditions and limits of retries.
#[derive(Debug)]
pub struct RetryRules {
    pub(super) results: RetriedResults,
    pub(super) max_retries: u16,
    pub(super) max_request_bytes: usize,
    /// From the end of the request to the headers of its response, for each attempt after which another one can be made.
    pub(super) timeout: Option<Duration>,
    pub(super) backoff: Option<Backoff>,
}

impl From<&RetryPolicy> for RetryRules {
    fn from(policy: &RetryPolicy) -> Self {
        Self {
            results: RetriedResults::Policy(policy.conditions.clone()),
            max_retries: policy.max_retries,
            max_request_bytes: policy.max_request_bytes,
            timeout: policy.timeout,
            backoff: policy.backoff,
        }
    }
}

impl RetryRules {
    /// The rules of a profile's route: failures by its classes, as often as the budget allows.
    pub fn of_profile(classes: Option<Rc<ResponseClasses>>) -> Self {
        Self {
            results: RetriedResults::Profile(classes),
            max_retries: u16::MAX,
            max_request_bytes: PROFILE_BYTES,
            timeout: None,
            backoff: None,
        }
    }
}

/// The bytes of a body that are kept for a profile's retries, as with the incumbent.
const PROFILE_BYTES: usize = 64 * 1024;
