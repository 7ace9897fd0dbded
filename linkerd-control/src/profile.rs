use crate::endpoint::Endpoint;
use linkerd_api_proto::destination::{DestinationProfile, RetryBudget, WeightedDst};
use std::time::Duration;

mod profile_match;
mod profile_route;
mod response_class;

pub use profile_match::ProfileMatch;
pub use profile_route::ProfileRoute;
pub use response_class::{ResponseClass, ResponseMatch};

/// Builds service profiles; [`Profile::build`] returns the message, whose fields can be changed further.
///
/// ```
/// use linkerd_control::{Controller, Profile, ProfileMatch, ProfileRoute};
/// use std::time::Duration;
///
/// let books = ProfileRoute::new(ProfileMatch::path("/books/[^/]*"))
///     .label("route", "books")
///     .timeout(Duration::from_secs(1));
/// let profile = Profile::new("web.default.svc.cluster.local").route(books);
/// let controller = Controller::new();
/// controller.profile("10.0.0.1:80").set(profile);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Profile(DestinationProfile);

impl Profile {
    /// A profile of a service, by its fully qualified name. Without a route or a target it has no effect.
    pub fn new(name: impl Into<String>) -> Self {
        Self(DestinationProfile {
            fully_qualified_name: name.into(),
            ..DestinationProfile::default()
        })
    }

    /// Declares opaque bytes, whatever the policy says.
    #[must_use]
    pub fn opaque(mut self) -> Self {
        self.0.opaque_protocol = true;
        self
    }

    /// Adds a route. The first route that matches a request takes it.
    #[must_use]
    pub fn route(mut self, route: ProfileRoute) -> Self {
        self.0.routes.push(route.build());
        self
    }

    /// Adds a target, `name:port`, with its share of the traffic.
    #[must_use]
    pub fn target(mut self, authority: impl Into<String>, weight: u32) -> Self {
        self.0.dst_overrides.push(WeightedDst {
            authority: authority.into(),
            weight,
            backend_ref: None,
        });
        self
    }

    /// Sets the only endpoint, of a target that is not a service.
    #[must_use]
    pub fn endpoint(mut self, endpoint: impl Into<Endpoint>) -> Self {
        self.0.endpoint = Some(endpoint.into().into());
        self
    }

    /// Sets the retry budget: the ratio of retries to requests within `ttl`, and the retries per second that are always allowed.
    #[must_use]
    pub fn retry_budget(mut self, ratio: f32, min_per_second: u32, ttl: Duration) -> Self {
        self.0.retry_budget = Some(RetryBudget {
            retry_ratio: ratio,
            min_retries_per_second: min_per_second,
            ttl: ttl.try_into().ok(),
        });
        self
    }

    /// The message.
    pub fn build(&self) -> DestinationProfile {
        self.0.clone()
    }
}

impl From<Profile> for DestinationProfile {
    fn from(profile: Profile) -> Self {
        profile.0
    }
}

#[cfg(test)]
mod tests;
