//! The profile of a service, in the terms of a `ServiceProfile`.

mod conditions;

use super::backend_ref::BackendRef;
use super::form::{FieldReader, Fields, Given};
use super::yaml::Node;
use crate::policy::Protocol;
use crate::profile::{Profile, ProfileMatch, ProfileRoute, ResponseClass};
use std::time::Duration;

/// A profile, whose targets are of type `B`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceProfile<B> {
    /// Routes and retry budget.
    pub(super) routes: Vec<ProfileRoute>,
    pub(super) retry_budget: Option<ProfileRetryBudget>,
    pub(super) targets: Vec<B>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProfileRetryBudget {
    ratio: f32,
    min_per_second: u32,
    ttl: Duration,
}

impl<B> ServiceProfile<B> {
    /// The same profile with other targets.
    pub(super) fn with_targets<C>(self, targets: Vec<C>) -> ServiceProfile<C> {
        ServiceProfile {
            routes: self.routes,
            retry_budget: self.retry_budget,
            targets,
        }
    }

    /// Adds routes, budget and targets; `target` is the authority and weight of each.
    pub(super) fn add_to(&self, profile: Profile, target: impl Fn(&B) -> (String, u32)) -> Profile {
        let routes = self.routes.iter().cloned();
        let mut profile = routes.fold(profile, Profile::route);
        if let Some(budget) = self.retry_budget {
            profile = profile.retry_budget(budget.ratio, budget.min_per_second, budget.ttl);
        }
        let targets = self.targets.iter().map(target);
        targets.fold(profile, |profile, (authority, weight)| {
            profile.target(authority, weight)
        })
    }
}

/// The field `profile` of a service.
pub(super) fn profile(
    r: &mut FieldReader,
    node: &Node,
    protocol: Protocol,
) -> Option<ServiceProfile<BackendRef>> {
    let fields = r.fields(node, &["routes", "retryBudget", "dstOverrides"])?;
    if protocol == Protocol::Opaque && fields.get("routes").is_some() {
        let reason = "opaque connections have no routes; remove `protocol: opaque` or `routes`";
        r.report(node.at, reason);
    }
    let retry_budget = r.value(&fields, "retryBudget", budget);
    let has_budget = fields.get("retryBudget").is_some();
    let routes = r.each(&fields, "routes", |r, node| route(r, node, has_budget));
    r.limit_patterns(node);
    Some(ServiceProfile {
        routes,
        retry_budget,
        targets: r.each(&fields, "dstOverrides", target),
    })
}

fn route(r: &mut FieldReader, node: &Node, has_budget: bool) -> Option<ProfileRoute> {
    let fields = r.fields(
        node,
        &[
            "name",
            "condition",
            "responseClasses",
            "timeout",
            "isRetryable",
        ],
    )?;
    let name = r.required(&fields, "the route", "name", FieldReader::text);
    let condition = r.required(
        &fields,
        "the route",
        "condition",
        conditions::request_condition,
    );
    // Other parts of an unreadable route are still checked.
    let every = || ProfileMatch::all([]);
    let mut route = ProfileRoute::new(condition.unwrap_or_else(every));
    if let Some(name) = name {
        route = route.label("route", name);
    }
    for class in r.each(&fields, "responseClasses", response_class) {
        route = route.class(class);
    }
    if let Some(timeout) = r.value(&fields, "timeout", FieldReader::positive_duration) {
        route = route.timeout(timeout);
    }
    if r.flag(&fields, "isRetryable") {
        if !has_budget {
            r.report(fields.at, NO_BUDGET);
        }
        route = route.retryable();
    }
    Some(route)
}

fn response_class(r: &mut FieldReader, node: &Node) -> Option<ResponseClass> {
    let fields = r.fields(node, &["condition", "isFailure"])?;
    let is_failure = r.flag(&fields, "isFailure");
    let condition = r.required(
        &fields,
        "the response class",
        "condition",
        conditions::response_condition,
    )?;
    Some(match is_failure {
        true => ResponseClass::failure(condition),
        false => ResponseClass::success(condition),
    })
}

fn budget(r: &mut FieldReader, node: &Node) -> Option<ProfileRetryBudget> {
    const OWNER: &str = "the retry budget";
    let fields = r.fields(node, &["retryRatio", "minRetriesPerSecond", "ttl"])?;
    let ratio = r.required(&fields, OWNER, "retryRatio", |r, node| {
        r.decimal_within(node, 0.0..=1_000.0)
    });
    let min = r.required(&fields, OWNER, "minRetriesPerSecond", |r, node| {
        r.within(node, 0..=i32::MAX as u32)
    });
    let ttl = r.required(&fields, OWNER, "ttl", |r, node| {
        let ttl = r.duration(node)?;
        let is_good = (MIN_TTL..=MAX_TTL).contains(&ttl);
        if !is_good {
            r.report(node.at, "a budget's ttl is between 1s and 60s");
        }
        is_good.then_some(ttl)
    });
    Some(ProfileRetryBudget {
        ratio: ratio? as f32,
        min_per_second: min?,
        ttl: ttl?,
    })
}

/// A target, whose authority is a reference to a service of the file.
fn target(r: &mut FieldReader, node: &Node) -> Option<BackendRef> {
    let fields: Fields<'_> = r.fields(node, &["authority", "weight"])?;
    let weight = r.given(&fields, "weight", FieldReader::number);
    if fields.get("authority").is_none() {
        r.report(fields.at, "the override has no `authority`");
        return None;
    }
    match r.given(&fields, "authority", FieldReader::text) {
        Given::Is(service) => Some(BackendRef { service, weight }),
        Given::Absent | Given::Wrong => None,
    }
}

const NO_BUDGET: &str = "a retryable route needs the `retryBudget` of its profile; add retryRatio, \
                         minRetriesPerSecond and ttl";

// The proxy's bounds.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
