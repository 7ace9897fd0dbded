use super::*;
use crate::breaker::{BreakerGate, OutcomeKind};
use linkerd_proxy_core::{Backoff, EndpointState, endpoint::Capacity};
use proptest::prelude::*;
use rand::SeedableRng;
use std::{num::NonZeroU32, time::Duration};

fn group(min_ready_endpoints: u32) -> BreakerGroup {
    let second = Duration::from_secs(1);
    let rules = FailureAccrual {
        max_consecutive: NonZeroU32::new(2),
        success_rate: None,
        limits_count: false,
        backoff: Backoff::new(second, 60 * second, 0.0).unwrap(),
        respects_retry_after: false,
        min_ready_endpoints,
    };
    BreakerGroup::new("test", rules, SmallRng::seed_from_u64(1))
}

/// An endpoint of the group.
struct Fake {
    status: EndpointStatus,
    breaker: Rc<EndpointBreaker>,
    gate: BreakerGate,
}

impl Fake {
    fn new(group: &BreakerGroup) -> Self {
        let status = EndpointStatus::new(Capacity::OnDemand);
        let breaker = group.breaker("endpoint", status.clone());
        Self {
            status,
            gate: BreakerGate::new(breaker.clone()),
            breaker,
        }
    }

    fn exchange(&mut self, kind: OutcomeKind) {
        self.gate.admit().record(kind, None, Instant::now());
    }

    fn fail(&mut self, times: usize) {
        for _ in 0..times {
            self.exchange(OutcomeKind::Failure);
        }
    }

    fn state(&self) -> &'static str {
        self.status.state().name()
    }

    fn shown(&self, field: &str) -> Value {
        self.breaker.inspect(Instant::now())[field].clone()
    }
}

fn fakes<const N: usize>(group: &BreakerGroup) -> [Fake; N] {
    std::array::from_fn(|_| Fake::new(group))
}

#[tokio::test(start_paused = true)]
async fn an_ejection_and_its_probe_are_the_endpoints_status() {
    let group = group(0);
    let mut endpoint = Fake::new(&group);
    endpoint.fail(1);
    assert_eq!(
        (endpoint.state(), endpoint.shown("state")),
        ("ready", "closed".into())
    );
    endpoint.fail(1);
    assert_eq!(
        (endpoint.state(), endpoint.shown("state")),
        ("ejected", "open".into())
    );
    assert_eq!(endpoint.shown("cause"), "2 failures in a row");
    assert_eq!(endpoint.shown("probe_in_ms"), 1_000);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(endpoint.state(), "ready");
    let probe = endpoint.gate.admit();
    assert_eq!(
        (endpoint.state(), endpoint.shown("state")),
        ("probing", "probing".into())
    );
    probe.abandon();
    assert_eq!(endpoint.state(), "ready", "for another probe");
    endpoint.fail(1);
    assert_eq!(
        (endpoint.state(), endpoint.shown("failed_probes")),
        ("ejected", 1.into())
    );
    tokio::time::advance(Duration::from_secs(2)).await;
    endpoint.exchange(OutcomeKind::Success);
    assert_eq!(
        (endpoint.state(), endpoint.shown("state")),
        ("ready", "closed".into())
    );
    assert_eq!(group.unejected(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_floor_keeps_endpoints_in_the_choice() {
    let group = group(2);
    let [mut a, mut b, mut c] = fakes(&group);
    a.fail(2);
    b.fail(3);
    assert_eq!([&a, &b, &c].map(Fake::state), ["ejected", "ready", "ready"]);
    assert_eq!(b.shown("kept_by_floor"), 2);
    // With another endpoint the floor is met.
    let _d = Fake::new(&group);
    c.fail(2);
    assert_eq!(
        [&a, &b, &c].map(Fake::state),
        ["ejected", "ready", "ejected"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_leaves_brings_back_the_one_that_is_out_for_the_longest_time() {
    let group = group(1);
    let [mut a, mut b, c] = fakes(&group);
    a.fail(2);
    b.fail(2);
    drop(c);
    assert_eq!([&a, &b].map(Fake::state), ["ready", "ejected"]);
    assert_eq!(a.shown("state"), "closed");
    drop(a);
    assert_eq!(b.state(), "ready");
    drop(b);
    assert_eq!(group.unejected(), 0);
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_an_endpoint_that_has_left_change_nothing() {
    let group = group(0);
    let [mut a, _b] = fakes(&group);
    let late: Vec<_> = (0..2).map(|_| a.gate.admit()).collect();
    let status = a.status.clone();
    drop(a);
    for pass in late {
        pass.record(OutcomeKind::Failure, None, Instant::now());
    }
    assert_eq!(status.state(), EndpointState::Ready);
    assert_eq!(group.unejected(), 1);
}

proptest! {
    /// For any sequence of joins, failures and removals: as many endpoints as the floor demands, if they exist, are not ejected.
    #[test]
    fn never_below_the_floor(floor in 0u32..4, steps in prop::collection::vec((any::<prop::sample::Index>(), 0u8..10, 0u64..3_000), 1..100)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let group = group(floor);
            let mut endpoints = vec![Fake::new(&group)];
            for (at, action, wait) in steps {
                tokio::time::advance(Duration::from_millis(wait)).await;
                let index = if endpoints.is_empty() { 0 } else { at.index(endpoints.len()) };
                match action {
                    0 => endpoints.push(Fake::new(&group)),
                    _ if endpoints.is_empty() => {}
                    1 => drop(endpoints.swap_remove(index)),
                    2 => endpoints[index].exchange(OutcomeKind::Success),
                    // The balancer sends no request to an ejected endpoint.
                    _ if endpoints[index].status.is_ejected() => {}
                    _ => endpoints[index].fail(2),
                }
                let is_open = |endpoint: &&Fake| endpoint.shown("state") != "closed";
                let open = endpoints.iter().filter(is_open).count();
                assert_eq!(group.unejected(), endpoints.len() - open);
                assert!(endpoints.len() - open >= endpoints.len().min(floor as usize));
            }
        });
    }
}
