use super::duration::duration;
use linkerd_api_proto::meta::Metadata;
use linkerd_api_proto::outbound::backend::balance_p2c::{Load, PeakEwma};
use linkerd_api_proto::outbound::{Backend, Queue, backend};
use std::time::Duration;

pub(super) fn new_backend(metadata: Metadata, kind: backend::Kind) -> Backend {
    Backend {
        metadata: Some(metadata),
        queue: Some(Queue {
            capacity: QUEUE_CAPACITY,
            failfast_timeout: duration(FAILFAST_TIMEOUT),
        }),
        kind: Some(kind),
    }
}

pub(super) fn balancer(path: String, load: Load) -> backend::Kind {
    use backend::{BalanceP2c, EndpointDiscovery, endpoint_discovery};
    backend::Kind::Balancer(BalanceP2c {
        discovery: Some(EndpointDiscovery {
            kind: Some(endpoint_discovery::Kind::Dst(
                endpoint_discovery::DestinationGet { path },
            )),
        }),
        load: Some(load),
    })
}

pub(super) fn peak_ewma() -> Load {
    Load::PeakEwma(PeakEwma {
        default_rtt: duration(DEFAULT_RTT),
        decay: duration(DECAY),
    })
}

// The values of a cluster's policy controller.
const QUEUE_CAPACITY: u32 = 100;
const FAILFAST_TIMEOUT: Duration = Duration::from_secs(3);
const DEFAULT_RTT: Duration = Duration::from_millis(30);
const DECAY: Duration = Duration::from_secs(10);
