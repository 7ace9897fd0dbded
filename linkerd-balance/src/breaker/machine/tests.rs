use super::*;
use linkerd_proxy_core::{Backoff, endpoint::SuccessRate};
use proptest::prelude::*;
use rand::{SeedableRng, rngs::SmallRng};
use std::num::NonZeroU32;

const SECOND: Duration = Duration::from_secs(1);

fn consecutive(max: u32) -> FailureAccrual {
    FailureAccrual {
        max_consecutive: NonZeroU32::new(max),
        success_rate: None,
        limits_count: false,
        backoff: Backoff::new(SECOND, 8 * SECOND, 0.0).unwrap(),
        respects_retry_after: false,
        min_ready_endpoints: 0,
    }
}

fn unified(max: u32, threshold: u16, min_requests: u32) -> FailureAccrual {
    FailureAccrual {
        success_rate: Some(SuccessRate {
            threshold,
            window: 10 * SECOND,
            min_requests,
        }),
        limits_count: true,
        ..consecutive(max)
    }
}

/// A breaker and its clock.
struct Fixture {
    breaker: Breaker,
    now: Instant,
    rng: SmallRng,
}

impl Fixture {
    fn new(rules: FailureAccrual) -> Self {
        Self {
            breaker: Breaker::new(Rc::new(rules)),
            now: Instant::now(),
            rng: SmallRng::seed_from_u64(1),
        }
    }

    /// Sends a request that ends at once.
    fn exchange(&mut self, kind: OutcomeKind) -> Option<BreakerChange> {
        self.hinted(kind, None)
    }

    fn hinted(
        &mut self,
        kind: OutcomeKind,
        retry_after: Option<Duration>,
    ) -> Option<BreakerChange> {
        let Admission { epoch, .. } = self.breaker.admit();
        self.end(epoch, kind, retry_after)
    }

    fn end(
        &mut self,
        epoch: u32,
        kind: OutcomeKind,
        retry_after: Option<Duration>,
    ) -> Option<BreakerChange> {
        let outcome = Outcome {
            epoch,
            kind,
            retry_after,
        };
        self.breaker.record(outcome, self.now, true, &mut self.rng)
    }

    fn all(&mut self, kinds: &[OutcomeKind]) -> Vec<Option<BreakerChange>> {
        kinds.iter().map(|kind| self.exchange(*kind)).collect()
    }

    /// The length of the ejection in `change`, in seconds.
    fn length(&self, change: Option<BreakerChange>) -> f64 {
        match change {
            Some(BreakerChange::Opened(ejected) | BreakerChange::Reopened(ejected)) => {
                (ejected.until - self.now).as_secs_f64()
            }
            change => panic!("{change:?}"),
        }
    }
}

use OutcomeKind::{Failure, Limited, Success};

#[test]
fn trips_after_exactly_so_many_failures_in_a_row() {
    let mut it = Fixture::new(consecutive(3));
    assert_eq!(
        it.all(&[Failure, Failure, Success, Failure, Failure]),
        [None; 5]
    );
    let change = it.exchange(Failure);
    assert_eq!(it.length(change), 1.0);
    let BreakerState::Open(ejected) = it.breaker.state() else {
        panic!("{:?}", it.breaker);
    };
    assert_eq!(ejected.cause.to_string(), "3 failures in a row");
}

#[test]
fn a_limited_request_ends_a_row_of_failures() {
    let mut it = Fixture::new(consecutive(2));
    assert_eq!(it.all(&[Failure, Limited, Failure, Limited]), [None; 4]);
}

#[test]
fn each_failed_probe_makes_the_ejection_longer_and_a_success_makes_all_as_before() {
    let mut it = Fixture::new(consecutive(1));
    let mut lengths = Vec::new();
    for _ in 0..5 {
        let change = it.exchange(Failure);
        lengths.push(it.length(change));
    }
    assert_eq!(lengths, [1.0, 2.0, 4.0, 8.0, 8.0]);
    assert_eq!(it.exchange(Success), Some(BreakerChange::Closed));
    assert_eq!(it.breaker.state(), BreakerState::Closed);
    let change = it.exchange(Failure);
    assert_eq!(it.length(change), 1.0);
}

#[test]
fn a_success_rate_trips_when_there_are_enough_requests() {
    let mut it = Fixture::new(unified(0, 7_500, 8));
    let kinds = [
        Failure, Success, Failure, Success, Failure, Success, Failure,
    ];
    assert_eq!(it.all(&kinds), [None; 7]);
    let change = it.exchange(Success);
    assert_eq!(it.length(change), 1.0, "4 of 8 are below 75 %");
    assert_eq!(it.exchange(Success), Some(BreakerChange::Closed));
    assert_eq!(it.all(&kinds), [None; 7], "the window began anew");
}

#[test]
fn what_is_longer_ago_than_the_window_does_not_count() {
    let mut it = Fixture::new(unified(0, 5_000, 4));
    assert_eq!(it.all(&[Failure, Failure, Failure]), [None; 3]);
    it.now += 11 * SECOND;
    assert_eq!(it.all(&[Success, Success, Success, Failure]), [None; 4]);
}

#[test]
fn failures_in_a_row_are_looked_at_first() {
    let mut it = Fixture::new(unified(3, 10_000, 3));
    it.all(&[Failure, Failure]);
    match it.exchange(Failure) {
        Some(BreakerChange::Opened(ejected)) => {
            assert_eq!(ejected.cause, TripCause::ConsecutiveFailures(3));
        }
        change => panic!("{change:?}"),
    }
}

#[test]
fn limited_requests_lower_the_rate_and_fail_a_unified_probe() {
    let mut it = Fixture::new(unified(5, 6_000, 4));
    it.all(&[Limited, Limited, Success]);
    let change = it.exchange(Limited);
    assert_eq!(it.length(change), 1.0);
    let change = it.exchange(Limited);
    assert_eq!(it.length(change), 2.0);
    let mut it = Fixture::new(consecutive(1));
    it.exchange(Failure);
    assert_eq!(it.exchange(Limited), Some(BreakerChange::Closed));
}

#[test]
fn a_hint_is_the_first_ejection_within_the_bounds_and_never_shortens_a_later_one() {
    let rules = FailureAccrual {
        respects_retry_after: true,
        ..consecutive(1)
    };
    for (hint, first, second) in [(0, 1.0, 2.0), (5, 5.0, 5.0), (60, 8.0, 8.0)] {
        let mut it = Fixture::new(rules);
        let hint = Some(hint * SECOND);
        let change = it.hinted(Failure, hint);
        assert_eq!(it.length(change), first);
        let change = it.hinted(Failure, hint);
        assert_eq!(it.length(change), second);
    }
    let mut it = Fixture::new(consecutive(1));
    let change = it.hinted(Failure, Some(5 * SECOND));
    assert_eq!(it.length(change), 1.0, "it is not respected");
}

#[test]
fn requests_from_before_the_ejection_decide_nothing() {
    let mut it = Fixture::new(consecutive(2));
    let early: Vec<_> = (0..4).map(|_| it.breaker.admit().epoch).collect();
    it.end(early[0], Failure, None);
    assert!(it.end(early[1], Failure, None).is_some());
    assert_eq!(it.end(early[2], Success, None), None);
    let probe = it.breaker.admit();
    assert!(probe.is_probe);
    assert_eq!(it.end(early[3], Success, None), None);
    assert!(matches!(it.breaker.state(), BreakerState::Probing(_)));
    assert_eq!(
        it.end(probe.epoch, Success, None),
        Some(BreakerChange::Closed)
    );
}

#[test]
fn an_abandoned_probe_leaves_its_place_to_the_next_request() {
    let mut it = Fixture::new(consecutive(1));
    it.exchange(Failure);
    let probe = it.breaker.admit();
    let other = it.breaker.admit();
    assert!(!other.is_probe);
    assert!(!it.breaker.abandon(other.epoch));
    assert!(it.breaker.abandon(probe.epoch));
    assert!(!it.breaker.abandon(probe.epoch), "once");
    assert!(it.breaker.admit().is_probe);
}

#[test]
fn a_breaker_that_the_floor_holds_stays_closed_and_trips_when_it_may() {
    let mut it = Fixture::new(consecutive(1));
    let mut end = |may_eject| {
        let outcome = Outcome {
            epoch: it.breaker.admit().epoch,
            kind: Failure,
            retry_after: None,
        };
        it.breaker.record(outcome, it.now, may_eject, &mut it.rng)
    };
    assert_eq!(
        end(false),
        Some(BreakerChange::Withheld(TripCause::ConsecutiveFailures(1)))
    );
    assert!(matches!(end(true), Some(BreakerChange::Opened(_))));
    assert_eq!(end(false), Some(BreakerChange::Closed), "a failed probe");
}

/// A step of an endpoint's life.
#[derive(Clone, Copy, Debug)]
enum Step {
    Admit,
    End(prop::sample::Index, OutcomeKind),
    Abandon(prop::sample::Index),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(Success), Just(Failure), Just(Limited)];
    prop_oneof![
        3 => Just(Step::Admit),
        3 => (any::<prop::sample::Index>(), kind).prop_map(|(at, kind)| Step::End(at, kind)),
        1 => any::<prop::sample::Index>().prop_map(Step::Abandon),
        1 => any::<u16>().prop_map(Step::Wait),
    ]
}

proptest! {
    /// At any time there is at most one probe, which alone decides, and ejections are within the backoff's bounds.
    #[test]
    fn never_more_than_one_probe(steps in prop::collection::vec(step(), 1..200), is_unified: bool) {
        let rules = if is_unified { unified(3, 5_000, 4) } else { consecutive(2) };
        let mut it = Fixture::new(rules);
        let mut in_flight: Vec<Admission> = Vec::new();
        for step in steps {
            let before = it.breaker.state();
            match step {
                Step::Wait(ms) => it.now += Duration::from_millis(ms.into()),
                Step::Admit => {
                    let admission = it.breaker.admit();
                    prop_assert_eq!(admission.is_probe, matches!(before, BreakerState::Open(_)));
                    in_flight.push(admission);
                }
                Step::Abandon(_) | Step::End(..) if in_flight.is_empty() => {}
                Step::Abandon(at) => {
                    let admission = in_flight.swap_remove(at.index(in_flight.len()));
                    prop_assert_eq!(it.breaker.abandon(admission.epoch), admission.is_probe);
                }
                Step::End(at, kind) => {
                    let admission = in_flight.swap_remove(at.index(in_flight.len()));
                    let change = it.end(admission.epoch, kind, None);
                    let decides = admission.is_probe || before == BreakerState::Closed;
                    prop_assert!(decides || change.is_none());
                    if let Some(BreakerChange::Opened(ejected) | BreakerChange::Reopened(ejected)) = change {
                        let length = ejected.until - it.now;
                        prop_assert!(length >= SECOND && length <= 8 * SECOND);
                    }
                }
            }
            let probes = in_flight.iter().filter(|admission| admission.is_probe).count();
            let is_probing = matches!(it.breaker.state(), BreakerState::Probing(_));
            prop_assert_eq!(probes, usize::from(is_probing));
        }
    }
}
