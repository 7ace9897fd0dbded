//! Hedging, whose variables belong together.

use super::*;
use crate::config::HedgeSettings;
use std::time::Duration;

#[test]
fn requests_are_hedged_on_demand() {
    let percentile = ("LINKERD_PROXY_OUTBOUND_HEDGE_PERCENTILE", "99.5");
    let min_delay = ("LINKERD_PROXY_OUTBOUND_HEDGE_MIN_DELAY", "77ms");
    let max_bytes = ("LINKERD_PROXY_OUTBOUND_REPLAY_MAX_BYTES", "78");
    assert_eq!(load(&[min_delay]).outbound.hedge, None);
    let hedge = load(&[percentile, min_delay, max_bytes]).outbound.hedge;
    let expected = HedgeSettings {
        percentile: 99.5,
        min_delay: Duration::from_millis(77),
        max_bytes: 78,
    };
    assert_eq!(hedge, Some(expected));
}
