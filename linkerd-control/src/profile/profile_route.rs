use super::{ProfileMatch, ResponseClass};
use linkerd_api_proto::destination::Route;
use std::time::Duration;

/// A route of a [`Profile`](crate::Profile).
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRoute(Route);

impl ProfileRoute {
    /// A route for requests that meet a condition.
    pub fn new(condition: ProfileMatch) -> Self {
        Self(Route {
            condition: Some(condition.build()),
            ..Route::default()
        })
    }

    /// Adds a label, which metrics show with the prefix `rt_`.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.metrics_labels.insert(name.into(), value.into());
        self
    }

    /// Adds a response class. The first class that includes a response decides whether it is a failure.
    #[must_use]
    pub fn class(mut self, class: ResponseClass) -> Self {
        self.0.response_classes.push(class.build());
        self
    }

    /// Sets the timeout of the response's headers.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout.try_into().ok();
        self
    }

    /// Allows failures to be retried, within the budget of the profile.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.is_retryable = true;
        self
    }

    pub(super) fn build(self) -> Route {
        self.0
    }
}
