use crate::endpoint::Endpoint;
use crate::lookups::LookupKind;
use crate::mesh::distance;
use linkerd_api_proto::destination::{
    AddrSet, DestinationProfile, NoEndpoints, Update, WeightedAddr, WeightedAddrSet, update,
};
use linkerd_api_proto::inbound::Server;
use linkerd_api_proto::outbound::OutboundPolicy;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::Status;

/// The answer for a target, and the messages that change a stream from one answer to the next.
pub trait StreamContent: Clone + PartialEq + Send + Sync + Sized + 'static {
    /// The message on the wire.
    type Message: Clone + Send + 'static;

    /// The kind of look-up.
    const KIND: LookupKind;

    /// The messages that change a stream from `old` to `new`; all of `new` for a new stream.
    fn messages(old: Option<&Self>, new: &Self) -> Vec<Self::Message>;

    /// The answer for a target without content; `None` for no answer. `names` are the names in the mesh file.
    fn unknown(target: &str, names: &[String]) -> Result<Option<Self>, Status>;
}

/// The endpoints of one destination. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSet(Arc<Endpoints>);

#[derive(Clone, Debug, PartialEq)]
enum Endpoints {
    Some {
        labels: HashMap<String, String>,
        // Ordered, so that tests see the same messages every time.
        addrs: BTreeMap<SocketAddr, WeightedAddr>,
    },
    None {
        exists: bool,
    },
    /// Not known yet: a new stream gets no message.
    Unresolved,
}

impl EndpointSet {
    /// A set of endpoints. If several have the same address, the last one counts.
    pub fn new<E: Into<Endpoint>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self::default().with(endpoints)
    }

    /// No endpoints, of a service that exists or not.
    pub fn none(exists: bool) -> Self {
        Self(Arc::new(Endpoints::None { exists }))
    }

    /// Endpoints that are not known yet, as their host names are being resolved. Proxies let requests wait for them.
    pub(crate) fn unresolved() -> Self {
        Self(Arc::new(Endpoints::Unresolved))
    }

    /// Sets metric labels of all endpoints.
    #[must_use]
    pub fn labels<K: Into<String>, V: Into<String>>(
        self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let labels = labels
            .into_iter()
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        let (_, addrs) = self.into_parts();
        Self(Arc::new(Endpoints::Some { labels, addrs }))
    }

    /// Adds endpoints; an endpoint with the same address is replaced.
    #[must_use]
    pub fn with<E: Into<Endpoint>>(self, endpoints: impl IntoIterator<Item = E>) -> Self {
        let (labels, mut addrs) = self.into_parts();
        for endpoint in endpoints {
            let endpoint = endpoint.into();
            addrs.insert(endpoint.addr, endpoint.into());
        }
        Self(Arc::new(Endpoints::Some { labels, addrs }))
    }

    /// Removes the endpoints with these addresses.
    #[must_use]
    pub fn without(self, gone: impl IntoIterator<Item = SocketAddr>) -> Self {
        let (labels, mut addrs) = self.into_parts();
        for addr in gone {
            addrs.remove(&addr);
        }
        Self(Arc::new(Endpoints::Some { labels, addrs }))
    }

    /// The number of endpoints.
    pub fn len(&self) -> usize {
        match &*self.0 {
            Endpoints::Some { addrs, .. } => addrs.len(),
            Endpoints::None { .. } | Endpoints::Unresolved => 0,
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn into_parts(self) -> (HashMap<String, String>, BTreeMap<SocketAddr, WeightedAddr>) {
        match Arc::unwrap_or_clone(self.0) {
            Endpoints::Some { labels, addrs } => (labels, addrs),
            Endpoints::None { .. } | Endpoints::Unresolved => Default::default(),
        }
    }
}

impl Default for EndpointSet {
    fn default() -> Self {
        Self(Arc::new(Endpoints::Some {
            labels: HashMap::new(),
            addrs: BTreeMap::new(),
        }))
    }
}

impl StreamContent for EndpointSet {
    type Message = Update;

    const KIND: LookupKind = LookupKind::Destination;

    fn messages(old: Option<&Self>, new: &Self) -> Vec<Update> {
        if old == Some(new) {
            return Vec::new();
        }
        let (labels, addrs) = match &*new.0 {
            Endpoints::None { exists } => return vec![no_endpoints(*exists)],
            Endpoints::Unresolved if old.is_none() => return Vec::new(),
            // The known ones are replaced, and must not be used any more.
            Endpoints::Unresolved => return vec![no_endpoints(true)],
            Endpoints::Some { labels, addrs } => (labels, addrs),
        };
        let (old_labels, old_addrs) = match old.map(|old| &*old.0) {
            Some(Endpoints::Some { labels, addrs }) => (labels, addrs),
            // A proxy reads the first `Add` of a stream as the whole set, so that an empty set cannot be an `Add`.
            _ if addrs.is_empty() => return vec![no_endpoints(true)],
            _ => return vec![add(addrs.values().cloned(), labels)],
        };

        // The set's labels are part of each endpoint's metadata: with new labels, all are sent again.
        let added: Vec<_> = addrs
            .iter()
            .filter(|(addr, endpoint)| {
                labels != old_labels || old_addrs.get(addr) != Some(*endpoint)
            })
            .map(|(_, endpoint)| endpoint.clone())
            .collect();
        let removed: Vec<_> = old_addrs
            .keys()
            .filter(|addr| !addrs.contains_key(addr))
            .map(|addr| (*addr).into())
            .collect();
        // Additions first, so that a full replacement does not pass through an empty set.
        let mut messages = Vec::new();
        if !added.is_empty() {
            messages.push(add(added, labels));
        }
        if !removed.is_empty() {
            messages.push(Update {
                update: Some(update::Update::Remove(AddrSet { addrs: removed })),
            });
        }
        messages
    }

    fn unknown(_: &str, _: &[String]) -> Result<Option<Self>, Status> {
        Ok(Some(Self::none(false)))
    }
}

impl StreamContent for DestinationProfile {
    type Message = Self;

    const KIND: LookupKind = LookupKind::Profile;

    fn messages(old: Option<&Self>, new: &Self) -> Vec<Self> {
        whole_if_changed(old, new)
    }

    /// As in a cluster: an address without a service has an empty profile, a service without a profile has a default
    /// one, and any other name is an error of the caller.
    fn unknown(target: &str, _: &[String]) -> Result<Option<Self>, Status> {
        if target.parse::<SocketAddr>().is_ok() {
            return Ok(Some(Self::default()));
        }
        match target.rsplit_once(':') {
            Some((host, _)) if host.ends_with(".svc.cluster.local") => Ok(Some(Self {
                fully_qualified_name: host.to_owned(),
                ..Self::default()
            })),
            _ => Err(Status::invalid_argument(format!(
                "invalid service {target:?}: expected <name>.<namespace>.svc.cluster.local:<port>"
            ))),
        }
    }
}

impl StreamContent for OutboundPolicy {
    type Message = Self;

    const KIND: LookupKind = LookupKind::Policy;

    fn messages(old: Option<&Self>, new: &Self) -> Vec<Self> {
        whole_if_changed(old, new)
    }

    fn unknown(target: &str, names: &[String]) -> Result<Option<Self>, Status> {
        let others = others(target, names);
        Err(Status::not_found(format!("no service at {target}{others}")))
    }
}

impl StreamContent for Server {
    type Message = Self;

    const KIND: LookupKind = LookupKind::Server;

    fn messages(old: Option<&Self>, new: &Self) -> Vec<Self> {
        whole_if_changed(old, new)
    }

    /// No answer, so that the proxy goes on with its default policy until there is one.
    fn unknown(_: &str, _: &[String]) -> Result<Option<Self>, Status> {
        Ok(None)
    }
}

/// Existing names for the error message, nearest first: for the user of the proxy.
fn others(target: &str, names: &[String]) -> String {
    let compared = names.iter().take(MAX_COMPARED);
    let mut nearest: Vec<_> = compared
        .map(|name| (distance(target, name), name))
        .collect();
    nearest.sort();
    nearest.truncate(MAX_NAMED);
    let named: Vec<_> = nearest.iter().map(|(_, name)| name.as_str()).collect();
    match names.len() {
        0 => String::new(),
        count if count > named.len() => {
            format!("; the nearest of {count} services: {}", named.join(", "))
        }
        _ => format!("; the services: {}", named.join(", ")),
    }
}

fn whole_if_changed<M: Clone + PartialEq>(old: Option<&M>, new: &M) -> Vec<M> {
    if old == Some(new) {
        return Vec::new();
    }
    vec![new.clone()]
}

fn add(
    addrs: impl IntoIterator<Item = WeightedAddr>,
    metric_labels: &HashMap<String, String>,
) -> Update {
    Update {
        update: Some(update::Update::Add(WeightedAddrSet {
            addrs: addrs.into_iter().collect(),
            metric_labels: metric_labels.clone(),
        })),
    }
}

fn no_endpoints(exists: bool) -> Update {
    Update {
        update: Some(update::Update::NoEndpoints(NoEndpoints { exists })),
    }
}

/// The most names in a message.
const MAX_NAMED: usize = 10;

/// The most names that are compared: each comparison takes microseconds, during which no other call is served.
const MAX_COMPARED: usize = 1_000;

#[cfg(test)]
mod tests;
