//! Policies and profiles, as a controller may send them.
//!
//! An input is two parts: a policy and a profile. A part that does not decode stands for an empty message.

use super::{Target, join, parts, runtime};
use futures::{FutureExt, StreamExt, stream};
use linkerd_api_client::convert::{client_policy, profile_update};
use linkerd_api_proto::{
    destination::{
        DestinationProfile, HttpStatusRange, PathMatch, RequestMatch, ResponseClass, ResponseMatch,
        RetryBudget, Route, WeightedDst, request_match, response_match,
    },
    http_route as wire_route, meta,
    outbound::{self, OutboundPolicy, backend, http_route, opaque_route, proxy_protocol},
    prost_types,
};
use linkerd_profiles::{
    ClientPolicy, Policies, PoliciesConfig, PolicySource, ProfileSource, ProfileUpdate,
    Target as Name,
};
use linkerd_proxy_core::{
    Backoff,
    subscription::{Call, StreamLimits},
};
use prost::Message;
use std::{net::SocketAddr, sync::Arc, time::Duration};

pub(super) const TARGET: Target = Target {
    name: "policy",
    run,
    seeds,
    words: &[],
};

struct ScriptedPolicy(OutboundPolicy);

struct ScriptedProfile(DestinationProfile);

impl PolicySource for ScriptedPolicy {
    fn policies(&self, _: &Name) -> Call<ClientPolicy> {
        once(client_policy(self.0.clone()))
    }
}

impl ProfileSource for ScriptedProfile {
    fn profiles(&self, target: &Name) -> Call<ProfileUpdate> {
        once(profile_update(self.0.clone(), target.port()))
    }
}

fn once<T: Send + 'static>(message: T) -> Call<T> {
    let messages = stream::iter([Ok(message)]).chain(stream::pending());
    futures::future::ready(Ok(messages.boxed())).boxed()
}

/// For any messages, there is an answer at once, and all its methods return.
fn run(input: &[u8]) {
    let mut parts = parts(input);
    let policy = parts.next().map(OutboundPolicy::decode);
    let profile = parts.next().map(DestinationProfile::decode);
    let policy = ScriptedPolicy(policy.and_then(Result::ok).unwrap_or_default());
    let profile = ScriptedProfile(profile.and_then(Result::ok).unwrap_or_default());
    let runtime = runtime();
    let policies = Policies::new(policy, profile, config(), runtime.handle().clone());
    runtime.block_on(async {
        let mut watch = policies
            .discover(SocketAddr::from(([10, 0, 0, 1], 80)))
            .expect("there is room for one");
        let answer = tokio::time::timeout(SECOND, watch.ready()).await;
        let discovered = answer.expect("at once").expect("nothing was refused");
        let _ = (
            discovered.protocol(),
            discovered.logical(),
            discovered.opaque(),
        );
        for version in [http::Version::HTTP_11, http::Version::HTTP_2] {
            if let Ok(routing) = discovered.http(version) {
                let request = http::Request::get("http://web/books/1?q=1").body(());
                let _ = routing.table.find(&request.expect("it is valid"));
            }
        }
        assert!(policies.inspect().is_object());
    });
}

fn config() -> PoliciesConfig {
    let backoff = Backoff::new(SECOND, SECOND, 0.0).expect("a valid backoff");
    PoliciesConfig {
        profile_networks: Arc::new(|_| true),
        profile_names: Arc::new(|_| true),
        limits: StreamLimits::default(),
        policy_backoff: backoff,
        profile_backoff: backoff,
        idle_timeout: SECOND,
        max_entries: 1,
        detect_timeout: SECOND,
        forward_unknown: true,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let policies = [
        proxy_protocol::Kind::Http1(proxy_protocol::Http1 {
            routes: vec![http_route()],
            ..Default::default()
        }),
        proxy_protocol::Kind::Http2(proxy_protocol::Http2 {
            routes: vec![http_route()],
            ..Default::default()
        }),
        proxy_protocol::Kind::Opaque(proxy_protocol::Opaque {
            routes: vec![opaque_route()],
        }),
        proxy_protocol::Kind::Detect(proxy_protocol::Detect {
            timeout: seconds(-1),
            opaque: Some(proxy_protocol::Opaque {
                routes: vec![opaque_route()],
            }),
            http1: Some(proxy_protocol::Http1 {
                routes: vec![http_route()],
                ..Default::default()
            }),
            http2: None,
        }),
    ];
    let profile = DestinationProfile {
        fully_qualified_name: "web.default.svc.cluster.local".into(),
        opaque_protocol: true,
        dst_overrides: vec![WeightedDst {
            authority: "web-2:80".into(),
            weight: 3,
            ..WeightedDst::default()
        }],
        routes: vec![profile_route()],
        retry_budget: Some(RetryBudget {
            retry_ratio: 0.2,
            min_retries_per_second: 10,
            ttl: seconds(10),
        }),
        ..Default::default()
    };
    let profile = profile.encode_to_vec();
    let seed = |kind| {
        let policy = OutboundPolicy {
            metadata: metadata(),
            protocol: Some(outbound::ProxyProtocol { kind: Some(kind) }),
        };
        join(&[policy.encode_to_vec(), profile.clone()])
    };
    policies.map(seed).into()
}

fn profile_route() -> Route {
    use request_match::{Match, Seq};
    let condition = |kind| RequestMatch {
        r#match: Some(kind),
    };
    let path = condition(Match::Path(PathMatch {
        regex: "/books/[^/]*".into(),
    }));
    let not = condition(Match::Not(Box::new(path.clone())));
    let any = condition(Match::Any(Seq {
        matches: vec![path, not],
    }));
    let statuses = HttpStatusRange { min: 500, max: 599 };
    Route {
        condition: Some(any),
        response_classes: vec![ResponseClass {
            condition: Some(ResponseMatch {
                r#match: Some(response_match::Match::Status(statuses)),
            }),
            is_failure: true,
        }],
        metrics_labels: [("route".to_owned(), "books".to_owned())].into(),
        is_retryable: true,
        timeout: seconds(1),
    }
}

fn http_route() -> outbound::HttpRoute {
    use http_route::distribution::{Kind, RandomAvailable};
    let backend = |weight| http_route::WeightedRouteBackend {
        backend: Some(http_route::RouteBackend {
            backend: Some(balancer()),
            ..Default::default()
        }),
        weight,
    };
    outbound::HttpRoute {
        metadata: metadata(),
        hosts: Vec::new(),
        rules: vec![http_route::Rule {
            matches: vec![wire_route::HttpRouteMatch::default()],
            backends: Some(http_route::Distribution {
                kind: Some(Kind::RandomAvailable(RandomAvailable {
                    backends: vec![backend(1), backend(0)],
                })),
            }),
            ..Default::default()
        }],
    }
}

fn opaque_route() -> outbound::OpaqueRoute {
    use opaque_route::distribution::{FirstAvailable, Kind};
    let backend = opaque_route::RouteBackend {
        backend: Some(balancer()),
        ..Default::default()
    };
    outbound::OpaqueRoute {
        metadata: metadata(),
        rules: vec![opaque_route::Rule {
            backends: Some(opaque_route::Distribution {
                kind: Some(Kind::FirstAvailable(FirstAvailable {
                    backends: vec![backend],
                })),
            }),
            ..Default::default()
        }],
    }
}

fn balancer() -> outbound::Backend {
    let path = "web:80".to_owned();
    outbound::Backend {
        metadata: None,
        queue: Some(outbound::Queue {
            capacity: 9,
            failfast_timeout: seconds(3),
        }),
        kind: Some(backend::Kind::Balancer(backend::BalanceP2c {
            discovery: Some(backend::EndpointDiscovery {
                kind: Some(backend::endpoint_discovery::Kind::Dst(
                    backend::endpoint_discovery::DestinationGet { path },
                )),
            }),
            load: Some(backend::balance_p2c::Load::PeakEwma(
                backend::balance_p2c::PeakEwma {
                    default_rtt: seconds(1),
                    decay: seconds(10),
                },
            )),
        })),
    }
}

fn metadata() -> Option<meta::Metadata> {
    Some(meta::Metadata {
        kind: Some(meta::metadata::Kind::Default("web".into())),
    })
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

const SECOND: Duration = Duration::from_secs(1);
