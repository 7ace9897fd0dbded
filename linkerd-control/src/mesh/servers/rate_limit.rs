//! Rate limits of a server, in the terms of `HTTPLocalRateLimitPolicy`.

use crate::mesh::form::FieldReader;
use crate::mesh::host_name::{is_dns_name, resource_name};
use crate::mesh::yaml::Node;
use crate::server_policy::RateLimit;

/// The field `rateLimit`.
pub(super) fn rate_limit(r: &mut FieldReader, node: &Node) -> Option<RateLimit> {
    let fields = r.fields(node, &["name", "total", "identity", "overrides"])?;
    let name = r.value(&fields, "name", resource_name);
    let mut limit = RateLimit::new(name.as_deref().unwrap_or("rate-limit"));
    if let Some(total) = r.value(&fields, "total", per_second) {
        limit = limit.total(total);
    }
    if let Some(identity) = r.value(&fields, "identity", per_second) {
        limit = limit.per_identity(identity);
    }
    for node in r.items(&fields, "overrides") {
        let Some(fields) = r.fields(node, &["requestsPerSecond", "identities"]) else {
            continue;
        };
        let most = r.required(&fields, "the override", "requestsPerSecond", requests);
        let identities = r.texts(&fields, "identities");
        if identities.is_empty() {
            r.report(
                fields.at,
                "the override has no `identities`; add at least one",
            );
        }
        for identity in &identities {
            let is_name = is_dns_name(&identity.value);
            if !is_name && !identity.value.contains("://") {
                let reason = format!("{:?} is not an identity", identity.value);
                r.report(identity.at, reason);
            }
        }
        if let Some(most) = most {
            let identities = identities.into_iter().map(|identity| identity.value);
            limit = limit.of_identities(most, identities);
        }
    }
    Some(limit)
}

/// `{requestsPerSecond: 10}`
fn per_second(r: &mut FieldReader, node: &Node) -> Option<u32> {
    let fields = r.fields(node, &["requestsPerSecond"])?;
    r.required(&fields, "the limit", "requestsPerSecond", requests)
}

fn requests(r: &mut FieldReader, node: &Node) -> Option<u32> {
    r.within(node, 1..=1_000_000)
}
