//! The profiles of the services that requests are for: their routes give requests metrics and response classes, and nothing else.

mod profile_routes;
mod service;

pub use profile_routes::CountedProfileRoute;
pub use service::ProfiledService;

use super::service_name::service_name;
use crate::{metrics::ProfileRouteFamilies, server::InUse};
use linkerd_profiles::ServiceProfiles;
use linkerd_proxy_core::{Destination, subscription::CacheFull};
use std::{fmt, rc::Rc, time::Duration};

/// The services with profiles that are in use on one worker.
///
/// - **Bounds**: those of [`ServiceProfiles`]; a service that no connection uses is dropped.
/// - **Metrics**: `route_*` with the direction inbound.
pub struct InboundProfiles {
    profiles: ServiceProfiles,
    families: ProfileRouteFamilies,
    /// The longest wait of requests for the first profile of their service.
    timeout: Duration,
    services: InUse<Destination, ProfiledService>,
}

impl InboundProfiles {
    /// Without services yet. Requests for a service wait for the first answer of the control plane until `timeout` has passed since
    /// the first of them, on any worker.
    pub fn new(
        profiles: ServiceProfiles,
        families: ProfileRouteFamilies,
        timeout: Duration,
    ) -> Self {
        Self {
            profiles,
            families,
            timeout,
            services: InUse::default(),
        }
    }

    /// The service of an authority, with or without a port. `None` if it has no profile, or if too many are in use.
    pub fn of_authority(&self, authority: &str) -> Option<Rc<ProfiledService>> {
        let name = service_name(authority)?;
        if !self.profiles.has(name.name()) {
            return None;
        }
        if let Some(service) = self.services.get(&name) {
            return Some(service);
        }
        let watch = self.profiles.watch(&name).or_else(|_| {
            // Unused services hold a place in the cache until they are swept.
            self.services.drop_unused();
            self.profiles.watch(&name)
        });
        let full = |error: &CacheFull| tracing::debug!(%name, %error, "no place for its profile");
        let watch = watch.inspect_err(full).ok()?;
        let new = |_: &Destination| ProfiledService::new(watch, &self.families, self.timeout);
        Some(self.services.get_or_insert(name, new))
    }

    /// Drops the services that no connection uses, as long as the worker runs. The cache keeps their profiles for a while.
    pub async fn sweep(&self) {
        self.services.sweep_regularly(KEPT, KEPT).await;
    }

    /// The number of services in use, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({ "in_use": self.services.count() })
    }
}

impl fmt::Debug for InboundProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundProfiles")
            .field("profiles", &self.profiles)
            .finish_non_exhaustive()
    }
}

/// The time for which a worker keeps an unused service.
const KEPT: Duration = Duration::from_secs(5);
