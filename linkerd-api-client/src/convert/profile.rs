//! Service profiles. Invalid parts are ignored, and listed for the log.

mod budget;
mod ignored;
mod route;

use super::endpoint::endpoint;
use budget::retry_budget;
use ignored::Ignored;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_profiles::{Profile, ProfileTarget, ProfileUpdate};
use linkerd_proxy_core::{Destination, endpoint::SetLabels};
use route::Routes;
use std::sync::Arc;

/// Converts the profile of a target with port `port`.
pub fn profile_update(message: DestinationProfile, port: u16) -> ProfileUpdate {
    let mut ignored = Ignored::default();
    let logical = match message.fully_qualified_name {
        name if name.is_empty() => None,
        name => Destination::new(&name, port)
            .inspect_err(|_| ignored.add_part(format_args!("the service name {name:?}")))
            .ok(),
    };
    let endpoint = message.endpoint.and_then(|addr| {
        endpoint(addr, &SetLabels::default())
            .map(|converted| Arc::new(converted.endpoint))
            .inspect_err(|error| ignored.add("the endpoint", error))
            .ok()
    });
    let mut targets = Vec::with_capacity(message.dst_overrides.len());
    let mut sum = 0u32;
    for target in message.dst_overrides {
        if target.weight == 0 {
            continue;
        }
        let Ok(destination) = target.authority.parse::<Destination>() else {
            ignored.add_part(format_args!("the target {:?}", target.authority));
            continue;
        };
        let Some(with_it) = sum.checked_add(target.weight) else {
            let target = format_args!("the target {destination}");
            ignored.add(target, "the weights exceed 32 bits");
            continue;
        };
        sum = with_it;
        targets.push(ProfileTarget {
            destination,
            weight: target.weight,
        });
    }
    let retry_budget = message.retry_budget.and_then(|budget| {
        retry_budget(&budget)
            .inspect_err(|error| ignored.add("the retry budget", error))
            .ok()
    });
    let routes = Routes::new(retry_budget.is_some(), &mut ignored).convert(message.routes);
    ProfileUpdate {
        profile: Profile {
            logical,
            opaque: message.opaque_protocol,
            targets,
            endpoint,
            routes,
            retry_budget,
        },
        ignored: ignored.into_list(),
    }
}

#[cfg(test)]
mod tests;
