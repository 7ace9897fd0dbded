//! Dispatch of requests: a balancer, a split, one endpoint, or none.

use linkerd_api_proto::destination::WeightedAddr;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Dispatch {
    /// A balancer over the parent, or over another path.
    Balance(Option<String>),
    Weighted(Vec<Weighted>),
    Service(Weighted),
    Forward(Box<WeightedAddr>),
    Empty,
}

/// One of the services that share the traffic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weighted {
    pub(super) name: String,
    /// `None` for the parent's namespace.
    pub(super) namespace: Option<String>,
    pub(super) port: u16,
    pub(super) weight: u32,
}

impl Dispatch {
    /// One service of the parent's namespace.
    pub(super) fn service(name: impl Into<String>, port: u16) -> Self {
        Self::Service(Weighted {
            name: name.into(),
            namespace: None,
            port,
            weight: 1,
        })
    }

    /// Services of the parent's namespace, each with name, port and weight.
    pub(super) fn weighted<N: Into<String>>(
        backends: impl IntoIterator<Item = (N, u16, u32)>,
    ) -> Self {
        let backends = backends.into_iter().map(|(name, port, weight)| Weighted {
            name: name.into(),
            namespace: None,
            port,
            weight,
        });
        Self::Weighted(backends.collect())
    }

    /// Services of any namespaces, each with name, namespace, port and weight.
    pub(super) fn among(backends: impl IntoIterator<Item = (String, String, u16, u32)>) -> Self {
        let backends = backends.into_iter();
        let backends = backends.map(|(name, namespace, port, weight)| Weighted {
            name,
            namespace: Some(namespace),
            port,
            weight,
        });
        Self::Weighted(backends.collect())
    }
}
