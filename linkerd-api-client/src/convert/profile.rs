//! Service profiles.

use super::endpoint::endpoint;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_profiles::{Profile, ProfileTarget, ProfileUpdate};
use linkerd_proxy_core::Destination;
use std::{collections::HashMap, sync::Arc};

/// Converts the profile of a target with this port.
pub fn profile_update(message: DestinationProfile, port: u16) -> ProfileUpdate {
    let mut ignored = Vec::new();
    let logical = match message.fully_qualified_name {
        name if name.is_empty() => None,
        name => Destination::new(&name, port)
            .inspect_err(|_| ignored.push(format!("the service name {name:?}")))
            .ok(),
    };
    let endpoint = message.endpoint.and_then(|addr| {
        endpoint(addr, &HashMap::new())
            .map(|converted| Arc::new(converted.endpoint))
            .inspect_err(|error| ignored.push(format!("the endpoint: {error}")))
            .ok()
    });
    let mut targets = Vec::with_capacity(message.dst_overrides.len());
    let mut sum = 0u32;
    for target in message.dst_overrides {
        if target.weight == 0 {
            continue;
        }
        let Ok(destination) = target.authority.parse::<Destination>() else {
            ignored.push(format!("the target {:?}", target.authority));
            continue;
        };
        let Some(with_it) = sum.checked_add(target.weight) else {
            ignored.push(format!(
                "the target {destination}: the weights exceed 32 bits"
            ));
            continue;
        };
        sum = with_it;
        targets.push(ProfileTarget {
            destination,
            weight: target.weight,
        });
    }
    ProfileUpdate {
        profile: Profile {
            logical,
            opaque: message.opaque_protocol,
            targets,
            endpoint,
            has_routes: !message.routes.is_empty(),
        },
        ignored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_api_proto::destination::{WeightedAddr, WeightedDst};
    use proptest::prelude::*;

    #[test]
    fn profiles_are_read() {
        let target = |authority: &str, weight| WeightedDst {
            authority: authority.into(),
            weight,
            backend_ref: None,
        };
        let message = DestinationProfile {
            fully_qualified_name: "Web.default.svc.cluster.local".into(),
            dst_overrides: vec![target("a:80", 1), target("b", 1), target("c:80", 0)],
            endpoint: Some(WeightedAddr::default()),
            ..Default::default()
        };
        let ProfileUpdate { profile, ignored } = profile_update(message, 80);
        assert_eq!(
            ignored,
            [
                "the endpoint: an endpoint has no address",
                "the target \"b\""
            ]
        );
        assert_eq!(
            profile,
            Profile {
                targets: vec![ProfileTarget {
                    destination: "a:80".parse().unwrap(),
                    weight: 1
                }],
                logical: Some("web.default.svc.cluster.local:80".parse().unwrap()),
                opaque: false,
                endpoint: None,
                has_routes: false,
            }
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_conversion_panic(bytes: Vec<u8>) {
            use prost::Message;
            if let Ok(profile) = DestinationProfile::decode(&bytes[..]) {
                let _ = profile_update(profile, 80);
            }
        }
    }
}
