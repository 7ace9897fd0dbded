//! Service profiles.

use super::backend::endpoint;
use crate::profile::{Profile, ProfileTarget};
use linkerd_api_proto::{convert as wire, destination::DestinationProfile};
use std::{collections::HashMap, sync::Arc};

/// A profile, and what of the message made no sense and was left out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConvertedProfile {
    pub(crate) profile: Profile,
    pub(crate) left_out: Vec<String>,
}

impl From<(DestinationProfile, u16)> for ConvertedProfile {
    /// Converts what was answered to a look-up with this port.
    fn from((message, port): (DestinationProfile, u16)) -> Self {
        let mut left_out = Vec::new();
        let name = match message.fully_qualified_name {
            name if name.is_empty() => None,
            name => match wire::name_port(&format!("{name}:{port}")) {
                Some((name, _)) => Some(name),
                None => {
                    left_out.push(format!("the service name {name:?}"));
                    None
                }
            },
        };
        let endpoint = message.endpoint.and_then(|addr| {
            wire::endpoint(addr, &HashMap::new())
                .map(|parts| Arc::new(endpoint(parts)))
                .inspect_err(|error| left_out.push(format!("the endpoint: {error}")))
                .ok()
        });
        let mut targets = Vec::with_capacity(message.dst_overrides.len());
        let mut sum = 0u32;
        for target in message.dst_overrides {
            if target.weight == 0 {
                continue;
            }
            let Some((name, port)) = wire::name_port(&target.authority) else {
                left_out.push(format!("the target {:?}", target.authority));
                continue;
            };
            let Some(with_it) = sum.checked_add(target.weight) else {
                left_out.push(format!(
                    "the target {name}:{port}: the weights exceed 32 bits"
                ));
                continue;
            };
            sum = with_it;
            targets.push(ProfileTarget {
                name,
                port,
                weight: target.weight,
            });
        }
        Self {
            profile: Profile {
                name,
                port,
                opaque: message.opaque_protocol,
                targets,
                endpoint,
                has_routes: !message.routes.is_empty(),
            },
            left_out,
        }
    }
}
