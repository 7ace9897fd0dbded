use super::POLICY_GROUP;
use linkerd_api_proto::inbound::{
    HttpLocalRateLimit, Identity,
    http_local_rate_limit::{Limit, Override, r#override::ClientIdentities},
};
use linkerd_api_proto::meta::{Metadata, Resource, metadata};

/// Rate limits of a [`ServerPolicy`](crate::ServerPolicy), in requests per second.
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimit(HttpLocalRateLimit);

impl RateLimit {
    /// An `HTTPLocalRateLimitPolicy` without limits.
    pub fn new(name: &str) -> Self {
        Self(HttpLocalRateLimit {
            metadata: Some(Metadata {
                kind: Some(metadata::Kind::Resource(Resource {
                    group: POLICY_GROUP.to_owned(),
                    kind: "httplocalratelimitpolicy".to_owned(),
                    name: name.to_owned(),
                    namespace: "default".to_owned(),
                    section: String::new(),
                    port: 0,
                })),
            }),
            ..HttpLocalRateLimit::default()
        })
    }

    /// Limits all requests together.
    #[must_use]
    pub fn total(mut self, per_second: u32) -> Self {
        self.0.total = limit(per_second);
        self
    }

    /// Limits the requests of each identity. All clients without an identity count as one.
    #[must_use]
    pub fn per_identity(mut self, per_second: u32) -> Self {
        self.0.identity = limit(per_second);
        self
    }

    /// Limits the requests of these identities together, in place of the limit of each.
    #[must_use]
    pub fn of_identities<N: Into<String>>(
        mut self,
        per_second: u32,
        identities: impl IntoIterator<Item = N>,
    ) -> Self {
        let identities = identities.into_iter();
        self.0.overrides.push(Override {
            limit: limit(per_second),
            clients: Some(ClientIdentities {
                identities: identities
                    .map(|name| Identity { name: name.into() })
                    .collect(),
            }),
        });
        self
    }

    pub(super) fn build(&self) -> HttpLocalRateLimit {
        self.0.clone()
    }
}

fn limit(requests_per_second: u32) -> Option<Limit> {
    Some(Limit {
        requests_per_second,
    })
}
