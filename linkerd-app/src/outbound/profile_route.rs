//! Stage 4: the layers of a route of a profile, in the order in which a request meets them.

use super::{
    canonical::CanonicalHeaderLayer, profile_metrics::ProfileRouteMetrics,
    profile_timeout::ProfileTimeoutLayer, response_classes::ResponseClassesLayer,
};
use crate::metrics::ProfileRouteFamilies;
use linkerd_profiles::ProfileRoute;
use linkerd_proxy_core::{Destination, ObserveLayer, metrics::LabelSet};
use std::rc::Rc;
use tower::{
    layer::util::Identity,
    util::{Either, option_layer},
};

/// The layers of a route of a profile. Retries belong between the timeout, which covers them, and the count of attempts.
pub type ProfileRouteLayers = (
    Either<ResponseClassesLayer, Identity>,
    CanonicalHeaderLayer,
    ObserveLayer<ProfileRouteMetrics>,
    Either<ProfileTimeoutLayer, Identity>,
    ObserveLayer<ProfileRouteMetrics>,
);

/// The layers of a route of the profile of `logical`.
pub fn profile_route_layers(
    families: &ProfileRouteFamilies,
    logical: &Destination,
    route: &ProfileRoute,
) -> ProfileRouteLayers {
    let labels = LabelSet::from(ProfileRouteFamilies::labels(logical, route));
    let classes = (!route.classes.is_empty()).then(|| Rc::new(route.classes.clone()));
    let requests = ProfileRouteMetrics::of_requests(families, &labels, classes.clone());
    let attempts = ProfileRouteMetrics::of_attempts(families, &labels, classes.clone());
    (
        option_layer(classes.map(ResponseClassesLayer::new)),
        CanonicalHeaderLayer::new(logical),
        ObserveLayer::new(requests),
        option_layer(route.timeout.map(ProfileTimeoutLayer::new)),
        ObserveLayer::new(attempts),
    )
}
