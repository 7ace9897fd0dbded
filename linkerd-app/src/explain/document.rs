//! The explanation of a request to a target whose policy is known.

use super::{
    backend::{BackendsQuery, distribution, shown_backends},
    filter,
    query::ExplainQuery,
    rule,
};
use http::Version;
use linkerd_profiles::{Discovered, Distribution, HttpRouting, ProtocolKind, RouteSource};
use serde_json::{Value, json};

/// An explanation, and the backends whose state belongs to it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The document, without the state of the backends.
    pub document: Value,
    /// The backends of the rule that takes the request, in the order of the document.
    pub backends: Option<BackendsQuery>,
}

impl Explanation {
    /// Explains the way of a request by the policy and the profile of its target.
    pub fn new(query: &ExplainQuery, discovered: &Discovered) -> Self {
        let version = query.version.unwrap_or(match discovered.protocol() {
            ProtocolKind::Http2 => Version::HTTP_2,
            _ => Version::HTTP_11,
        });
        let protocol = match discovered.protocol() {
            ProtocolKind::Detect { .. } => "detect",
            ProtocolKind::Http1 => "http1",
            ProtocolKind::Http2 => "http2",
            ProtocolKind::Opaque => "opaque",
            ProtocolKind::Tls => "tls",
        };
        let mut this = Self {
            document: json!({
                "request": {
                    "method": query.method.as_str(),
                    "url": query.url.to_string(),
                    "version": format!("{version:?}"),
                },
                "target": query.target.to_string(),
                "policy": { "parent": discovered.policy.parent.to_string() },
                "profile": discovered.profile.as_ref().map(|profile| json!({
                    "logical": profile.logical.as_ref().map(|logical| logical.as_str()),
                    "routes": profile.routes.len(),
                    "targets": profile.targets.len(),
                })),
                "protocol": protocol,
            }),
            backends: None,
        };
        match discovered.protocol() {
            ProtocolKind::Opaque => this.opaque(discovered),
            ProtocolKind::Tls => this.refuse(
                "the target passes TLS through: its routes see the server name and no requests",
            ),
            _ => match discovered.http(version) {
                Ok(routing) => this.http(query, discovered, &routing, version),
                Err(invalid) => this.refuse(&invalid.reason),
            },
        }
        this
    }

    /// Adds the state of the backends, one list of each worker. It is null for a backend that a worker has not used.
    pub fn add_states(&mut self, workers: Vec<Value>) {
        let backends = &mut self.document["route"]["distribution"]["backends"];
        let Some(backends) = backends.as_array_mut() else {
            return;
        };
        for (index, backend) in backends.iter_mut().enumerate() {
            let states = workers.iter().enumerate();
            let states = states.filter_map(|(worker, states)| {
                let mut state = states.get(index).filter(|state| !state.is_null())?.clone();
                state["worker"] = worker.into();
                Some(state)
            });
            backend["workers"] = states.collect();
        }
    }

    fn http(
        &mut self,
        query: &ExplainQuery,
        discovered: &Discovered,
        routing: &HttpRouting,
        version: Version,
    ) {
        let explained = routing.table.explain(&query.request(version));
        let (source, why) = routed_by(discovered, routing);
        self.document["routed_by"] = json!({
            "source": source,
            "why": why,
            "parent": routing.parent.to_string(),
            "is_grpc": routing.is_grpc,
        });
        self.document["route"] = rule::taken(routing, &explained);
        self.document["not_taken"] = rule::others(&routing.table, &explained);
        self.document["not_taken_more"] = explained.more.into();
        match explained.found {
            None => self.refuse("no rule matches: the request gets a 404"),
            Some(found) => {
                let taken = &routing.table.rules()[found.index];
                let is_answered = filter::answer_all(&taken.filters);
                match taken.distribution {
                    _ if is_answered => {}
                    Distribution::Empty => self
                        .refuse("the rule has no backend: a request that no filter answers fails"),
                    Distribution::Weightless => self.refuse(
                        "the rule has no backend with a weight above 0: \
                         a request that no filter answers gets a 500",
                    ),
                    Distribution::FirstAvailable(_) | Distribution::RandomAvailable(_) => {}
                }
                let backends = shown_backends(&taken.distribution);
                self.backends = Some(BackendsQuery {
                    target: discovered.target.clone(),
                    version,
                    parent: routing.parent.clone(),
                    backends: backends.map(|used| used.backend.clone()).collect(),
                });
            }
        }
    }

    fn opaque(&mut self, discovered: &Discovered) {
        self.document["note"] =
            "the target is opaque: connections to it are relayed as bytes, and \
             an explicit proxy or an ingress refuses requests for it"
                .into();
        match discovered.opaque() {
            RouteSource::Route(spec) => {
                self.document["route"] = json!({
                    "route": spec.route.to_string(),
                    "condition": "every connection",
                    "distribution": distribution(&spec.distribution, |backend| (backend, &[])),
                });
            }
            RouteSource::NoRoute { .. } => self.refuse("the policy has no route for connections"),
            RouteSource::Invalid { reason, .. } => self.refuse(&reason),
        }
    }

    fn refuse(&mut self, reason: &str) {
        self.document["refused"] = reason.into();
    }
}

/// The message whose routes apply, and the reason.
fn routed_by(discovered: &Discovered, routing: &HttpRouting) -> (&'static str, &'static str) {
    match &discovered.profile {
        // Only requests that a profile routes carry its name.
        Some(_) if routing.canonical_header.is_some() => (
            "profile",
            "the profile has routes or a split, which come before the policy",
        ),
        None => ("policy", "there is no profile"),
        Some(profile) if profile.logical.is_none() => {
            ("policy", "the profile has no fully qualified name")
        }
        Some(_) => ("policy", "the profile has neither routes nor a split"),
    }
}

#[cfg(test)]
mod tests;
