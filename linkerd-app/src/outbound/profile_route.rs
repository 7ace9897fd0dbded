//! Stage 4: the layers of a route of a profile, in the order in which a request meets them.

use super::{
    profile_request::ProfileRequestLayer,
    profile_timeout::ProfileTimeoutLayer,
    retry::{RetryLayer, RetryRules, RouteRetries},
};
use crate::{
    metrics::{ProfileRetries, ProfileRouteFamilies},
    profile_metrics::ProfileRouteMetrics,
};
use linkerd_profiles::{ProfileRoute, Timeouts};
use linkerd_proxy_core::{Destination, ObserveLayer, RcLayer, metrics::LabelSet};
use std::rc::Rc;
use tower::{
    layer::util::Identity,
    util::{Either, option_layer},
};

/// The layers of a route of a profile. The timeout covers retries, and each attempt is counted.
pub type ProfileRouteLayers = (
    ProfileRequestLayer,
    ObserveLayer<ProfileRouteMetrics>,
    Either<ProfileTimeoutLayer, Identity>,
    Either<(RetryLayer, RcLayer), Identity>,
    ObserveLayer<ProfileRouteMetrics>,
);

/// The layers of a route of the profile of `logical`. `retries` makes the parts that its retries share; `None`: no retries.
pub fn profile_route_layers(
    families: &ProfileRouteFamilies,
    logical: &Destination,
    route: &ProfileRoute,
    retries: Option<impl FnOnce(ProfileRetries) -> RouteRetries>,
) -> ProfileRouteLayers {
    let labels = LabelSet::from(ProfileRouteFamilies::labels("outbound", logical, route));
    let classes = (!route.classes.is_empty()).then(|| Rc::new(route.classes.clone()));
    let requests = ProfileRouteMetrics::of_requests(families, &labels, classes.clone());
    let attempts = ProfileRouteMetrics::of_attempts(families, &labels, classes.clone());
    let retry = retries.map(|shared| {
        let shared = Rc::new(shared(ProfileRetries::new(families, &labels)));
        let rules = Rc::new(RetryRules::of_profile(classes.clone()));
        let retry = RetryLayer::new(rules, Timeouts::default(), &shared);
        (retry.begin_within(route.timeout), RcLayer)
    });
    (
        ProfileRequestLayer::new(logical, classes),
        ObserveLayer::new(requests),
        option_layer(route.timeout.map(ProfileTimeoutLayer::new)),
        option_layer(retry),
        ObserveLayer::new(attempts),
    )
}
