//! Endpoint updates, as a controller may send them.

use super::{Target, join, parts, runtime};
use futures::{FutureExt, StreamExt, stream};
use linkerd_api_client::convert::endpoint_update;
use linkerd_api_proto::destination::{
    AddrSet, NoEndpoints, ProtocolHint, TlsIdentity, Update, WeightedAddr, WeightedAddrSet,
    protocol_hint, tls_identity, update,
};
use linkerd_discover::{
    Discovery, DiscoveryConfig, EndpointSet, EndpointSource, EndpointUpdate, Resolution,
};
use linkerd_proxy_core::{
    Backoff, Destination,
    subscription::{Call, StreamLimits},
};
use prost::Message;
use std::{net::SocketAddr, time::Duration};

pub(super) const TARGET: Target = Target {
    name: "discovery",
    run,
    seeds,
    words: &[],
};

/// A stream of these updates, and then the final updates.
struct Scripted(Vec<Update>);

impl EndpointSource for Scripted {
    fn endpoints(&self, _: &Destination) -> Call<EndpointUpdate> {
        let none = update::Update::NoEndpoints(NoEndpoints { exists: true });
        let end = [none, add(&[weighted(LAST_WORD, 1)])];
        let end = end.map(|update| Update {
            update: Some(update),
        });
        let updates = self.0.clone().into_iter().chain(end);
        // One at a time, so that each is published.
        let paced = stream::iter(updates).then(|update| async {
            tokio::task::yield_now().await;
            Ok(endpoint_update(update))
        });
        futures::future::ready(Ok(paced.chain(stream::pending()).boxed())).boxed()
    }
}

/// For any updates, each published set is usable, and the stream goes on.
fn run(input: &[u8]) {
    let updates = parts(input).filter_map(|part| Update::decode(part).ok());
    let runtime = runtime();
    let config = DiscoveryConfig {
        limits: StreamLimits::default(),
        backoff: Backoff::new(SECOND, SECOND, 0.0).expect("a valid backoff"),
        idle_timeout: SECOND,
        max_destinations: 1,
        max_endpoints: MAX_ENDPOINTS,
    };
    let discovery = Discovery::new(
        Scripted(updates.collect()),
        config,
        runtime.handle().clone(),
    );
    runtime.block_on(async {
        let mut watch = discovery
            .endpoints(&"web:80".parse().expect("a valid destination"))
            .expect("there is room for one");
        loop {
            match watch.changed().await {
                Resolution::Pending => {}
                Resolution::Rejected(status) => panic!("rejected: {status}"),
                Resolution::Known(set) => {
                    check(&set);
                    if set.endpoints.len() == 1 && set.endpoints.contains_key(&LAST_WORD) {
                        break;
                    }
                }
            }
        }
        assert!(discovery.inspect().is_object());
    });
}

fn check(set: &EndpointSet) {
    assert!(set.endpoints.len() <= MAX_ENDPOINTS);
    let weights: u64 = set.endpoints.values().map(|e| u64::from(e.weight)).sum();
    assert!(set.is_empty() || weights > 0, "nobody would get anything");
    for (addr, endpoint) in set.endpoints.iter() {
        assert_eq!(*addr, endpoint.addr);
        assert_ne!(addr.port(), 0);
    }
}

fn add(addrs: &[WeightedAddr]) -> update::Update {
    update::Update::Add(WeightedAddrSet {
        addrs: addrs.to_vec(),
        metric_labels: [("service".into(), "web".into())].into(),
    })
}

fn weighted(addr: SocketAddr, weight: u32) -> WeightedAddr {
    WeightedAddr {
        addr: Some(addr.into()),
        weight,
        ..WeightedAddr::default()
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let (a, b) = (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 80).into());
    let v6 = SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 80));
    let meshed = WeightedAddr {
        tls_identity: Some(TlsIdentity {
            strategy: Some(tls_identity::Strategy::DnsLikeIdentity(
                tls_identity::DnsLikeIdentity { name: "a.b".into() },
            )),
            ..TlsIdentity::default()
        }),
        protocol_hint: Some(ProtocolHint {
            protocol: Some(protocol_hint::Protocol::H2(protocol_hint::H2 {})),
            ..ProtocolHint::default()
        }),
        ..weighted(b, 10_000)
    };
    let updates = [
        add(&[weighted(a, 1), meshed]),
        add(&[weighted(v6, 0)]),
        update::Update::Remove(AddrSet {
            addrs: vec![a.into()],
        }),
        update::Update::NoEndpoints(NoEndpoints { exists: false }),
        add(&[
            WeightedAddr::default(),
            weighted(([10, 0, 0, 3], 0).into(), u32::MAX),
        ]),
    ];
    let encoded = updates.map(|update| {
        Update {
            update: Some(update),
        }
        .encode_to_vec()
    });
    let mut seeds: Vec<_> = encoded
        .iter()
        .map(|one| join(std::slice::from_ref(one)))
        .collect();
    seeds.push(join(&encoded));
    seeds
}

const LAST_WORD: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 7)),
    4242,
);
const MAX_ENDPOINTS: usize = 8;
const SECOND: Duration = Duration::from_secs(1);
