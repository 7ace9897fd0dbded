//! A source of policies, profiles and endpoints, in the proxy's own terms. The test writes two tables, and all
//! subscriptions follow them.

use futures::{FutureExt, Stream, StreamExt, stream};
use linkerd_discover::{EndpointSetChange, EndpointSource, EndpointUpdate};
use linkerd_profiles::{
    ClientPolicy, Endpoint, PolicySource, ProfileSource, ProfileUpdate, Target,
};
use linkerd_proxy_core::{
    Destination,
    subscription::{Call, Code, Status},
};
use std::{collections::HashMap, net::SocketAddr, sync::Arc};
use tokio::sync::watch;

/// Policies by target, and endpoints by destination. Its copies share them.
#[derive(Clone, Default)]
pub struct TestSource(Arc<watch::Sender<Tables>>);

#[derive(Clone, Default)]
struct Tables {
    policies: HashMap<Target, ClientPolicy>,
    endpoints: HashMap<Destination, Vec<SocketAddr>>,
}

impl TestSource {
    /// Sets the policy of a target.
    pub fn set_policy(&self, target: &str, policy: ClientPolicy) {
        let target = target.parse().unwrap();
        self.0
            .send_modify(|tables| drop(tables.policies.insert(target, policy)));
    }

    /// Sets the endpoints of a destination.
    pub fn set_endpoints(&self, destination: &str, addrs: &[&str]) {
        let destination = destination.parse().unwrap();
        let addrs = addrs.iter().map(|addr| addr.parse().unwrap()).collect();
        self.0
            .send_modify(|tables| drop(tables.endpoints.insert(destination, addrs)));
    }

    /// The tables: now, and whenever they change.
    fn updates(&self) -> impl Stream<Item = Tables> + use<> {
        let mut tables = self.0.subscribe();
        tables.mark_changed();
        stream::unfold(tables, |mut tables| async move {
            tables.changed().await.ok()?;
            let present = tables.borrow_and_update().clone();
            Some((present, tables))
        })
    }
}

impl PolicySource for TestSource {
    fn policies(&self, target: &Target) -> Call<ClientPolicy> {
        let target = target.clone();
        let of_target = move |tables: Tables| {
            let policy = tables.policies.get(&target).cloned();
            std::future::ready(policy.map(Ok))
        };
        let policies = self.updates().filter_map(of_target).boxed();
        async { Ok(policies) }.boxed()
    }
}

impl ProfileSource for TestSource {
    fn profiles(&self, _: &Target) -> Call<ProfileUpdate> {
        async { Err(Status::new(Code::InvalidArgument, "there are no profiles")) }.boxed()
    }
}

impl EndpointSource for TestSource {
    fn endpoints(&self, destination: &Destination) -> Call<EndpointUpdate> {
        let (destination, mut known) = (destination.clone(), Vec::new());
        let changes = self.updates().flat_map(move |mut tables| {
            let mut changes = Vec::new();
            // Of a destination that the test has not set, the control plane says nothing.
            let Some(present) = tables.endpoints.remove(&destination) else {
                return stream::iter(changes.into_iter().map(Ok));
            };
            known.retain(|addr| !present.contains(addr));
            let gone = std::mem::replace(&mut known, present.clone());
            if present.is_empty() {
                changes.push(EndpointSetChange::Clear { exists: true }.into());
            } else {
                let added = present.into_iter().map(Endpoint::new);
                changes.push(EndpointSetChange::Add(added.collect()).into());
                let removed = || EndpointSetChange::Remove(gone.clone()).into();
                changes.extend((!gone.is_empty()).then(removed));
            }
            stream::iter(changes.into_iter().map(Ok))
        });
        let changes = changes.boxed();
        async { Ok(changes) }.boxed()
    }
}
