//! The routes of one profile, and the series of their requests.

use crate::{metrics::ProfileRouteFamilies, profile_metrics::ProfileRouteMetrics};
use http::Request;
use linkerd_profiles::{Profile, ProfileMatch, ProfileRoute};
use linkerd_proxy_core::{Destination, http::ResponseClasses, metrics::LabelSet};
use std::{cell::OnceCell, rc::Rc, sync::Arc};

/// The routes of one profile, and the series of their requests.
pub struct ProfileRoutes {
    logical: Destination,
    families: ProfileRouteFamilies,
    /// The last route takes all requests that no other route takes.
    routes: Box<[(Arc<ProfileRoute>, OnceCell<CountedProfileRoute>)]>,
}

/// A route that requests have taken.
#[derive(Clone, Debug)]
pub struct CountedProfileRoute {
    /// Counts its requests and their responses.
    pub metrics: ProfileRouteMetrics,
    /// The response classes of the route, if it has any.
    pub classes: Option<Rc<ResponseClasses>>,
}

impl ProfileRoutes {
    /// The routes of a profile; `None` if it has no logical address, by which they are counted.
    pub fn new(profile: &Profile, families: &ProfileRouteFamilies) -> Option<Self> {
        let others = Arc::new(ProfileRoute::new(ProfileMatch::EVERY));
        let routes = profile.routes.iter().cloned().chain([others]);
        Some(Self {
            logical: profile.logical.clone()?,
            families: families.clone(),
            routes: routes.map(|route| (route, OnceCell::new())).collect(),
        })
    }

    /// The first route whose condition a request meets.
    pub fn find<B>(&self, request: &Request<B>) -> Option<&CountedProfileRoute> {
        let mut routes = self.routes.iter();
        let (route, counted) = routes.find(|(route, _)| route.condition.is_met(request))?;
        Some(counted.get_or_init(|| self.counted(route)))
    }

    fn counted(&self, route: &ProfileRoute) -> CountedProfileRoute {
        let labels = ProfileRouteFamilies::labels("inbound", &self.logical, route);
        let labels = LabelSet::from(labels);
        let classes = (!route.classes.is_empty()).then(|| Rc::new(route.classes.clone()));
        CountedProfileRoute {
            metrics: ProfileRouteMetrics::of_requests(&self.families, &labels, classes.clone()),
            classes,
        }
    }
}
