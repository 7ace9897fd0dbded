//! A service with a profile, as one worker knows it.

use super::profile_routes::{CountedProfileRoute, ProfileRoutes};
use crate::metrics::ProfileRouteFamilies;
use http::Request;
use linkerd_profiles::{ServiceProfile, ServiceProfileWatch};
use std::{cell::RefCell, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// A service with a profile, as one worker knows it.
pub struct ProfiledService {
    /// Keeps the service in use.
    _watch: ServiceProfileWatch,
    families: ProfileRouteFamilies,
    /// The end of the wait for the first answer. Requests that come later do not wait at all.
    waits_until: Instant,
    updates: RefCell<watch::Receiver<ServiceProfile>>,
    present: RefCell<Option<ProfileRoutes>>,
}

impl ProfiledService {
    /// A service. Requests wait for its first answer until `timeout` has passed since it was asked for.
    pub fn new(
        watch: ServiceProfileWatch,
        families: &ProfileRouteFamilies,
        timeout: Duration,
    ) -> Self {
        let mut updates = watch.receiver();
        updates.mark_changed();
        Self {
            waits_until: watch.asked_at() + timeout,
            _watch: watch,
            families: families.clone(),
            updates: RefCell::new(updates),
            present: RefCell::default(),
        }
    }

    /// Whether a request should wait for the first answer of the control plane.
    pub fn awaits_answer(&self) -> bool {
        let is_pending = matches!(*self.updates.borrow().borrow(), ServiceProfile::Pending);
        is_pending && Instant::now() < self.waits_until
    }

    /// Waits for the first answer of the control plane, or for the end of the wait.
    pub async fn answered(&self) {
        let mut updates = self.updates.borrow().clone();
        let answer = updates.wait_for(|profile| !matches!(profile, ServiceProfile::Pending));
        // Without an answer the request goes on without a route.
        let _ = timeout_at(self.waits_until, answer).await;
    }

    /// The route of a request by the present profile, if there is one.
    pub fn route<B>(&self, request: &Request<B>) -> Option<CountedProfileRoute> {
        self.update();
        self.present.borrow().as_ref()?.find(request).cloned()
    }

    fn update(&self) {
        let mut updates = self.updates.borrow_mut();
        if updates.has_changed().unwrap_or(false) {
            *self.present.borrow_mut() = match &*updates.borrow_and_update() {
                ServiceProfile::Found(profile) => ProfileRoutes::new(profile, &self.families),
                ServiceProfile::Pending | ServiceProfile::Refused => None,
            };
        }
    }
}
