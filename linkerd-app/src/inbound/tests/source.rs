//! Sources of the policies of ports and of profiles, in the proxy's own terms. The test writes a table, and all subscriptions
//! follow it.

use futures::{FutureExt, StreamExt, stream};
use linkerd_profiles::{
    Profile, ProfileSource, ProfileUpdate, ServerPolicy, ServerPolicySource, Target,
};
use linkerd_proxy_core::subscription::Call;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

/// Policies by port. Its copies share them.
#[derive(Clone, Default)]
pub struct TestServerPolicies(Arc<watch::Sender<HashMap<u16, ServerPolicy>>>);

impl TestServerPolicies {
    /// Sets the policy of a port.
    pub fn set(&self, port: u16, policy: ServerPolicy) {
        self.0
            .send_modify(|policies| drop(policies.insert(port, policy)));
    }
}

impl ServerPolicySource for TestServerPolicies {
    fn server_policies(&self, port: u16) -> Call<ServerPolicy> {
        let mut policies = self.0.subscribe();
        policies.mark_changed();
        let updates = stream::unfold(policies, move |mut policies| async move {
            loop {
                policies.changed().await.ok()?;
                let present = policies.borrow_and_update().get(&port).cloned();
                if let Some(policy) = present {
                    return Some((Ok(policy), policies));
                }
            }
        });
        async { Ok(updates.boxed()) }.boxed()
    }
}

/// Profiles by name; a profile that is not set is never answered. Its copies share them.
#[derive(Clone, Default)]
pub struct TestProfiles(Arc<watch::Sender<HashMap<String, Profile>>>);

impl TestProfiles {
    /// Sets the profile of a service.
    pub fn set(&self, name: &str, profile: Profile) {
        self.0
            .send_modify(|profiles| drop(profiles.insert(name.to_owned(), profile)));
    }
}

impl ProfileSource for TestProfiles {
    fn profiles(&self, target: &Target) -> Call<ProfileUpdate> {
        let (mut profiles, name) = (self.0.subscribe(), target.to_string());
        profiles.mark_changed();
        let updates = stream::unfold((profiles, name), move |(mut profiles, name)| async move {
            loop {
                profiles.changed().await.ok()?;
                let present = profiles.borrow_and_update().get(&name).cloned();
                if let Some(profile) = present {
                    return Some((Ok(profile.into()), (profiles, name)));
                }
            }
        });
        async { Ok(updates.boxed()) }.boxed()
    }
}
