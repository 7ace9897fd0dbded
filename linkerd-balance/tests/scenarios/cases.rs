//! Scenarios that a file cannot express: they check single requests, waits and states.

use crate::harness::{Fake, Harness, run, settle, shares};
use linkerd_proxy_core::{Reason, Unavailable, task::spawn_local};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;
use tower::discover::Change;

#[test]
fn requests_that_fail_one_after_the_other_are_served_when_the_endpoint_returns() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(5));
        a.0.refuses.set(true);
        a.0.refusal.set(Duration::from_millis(10));
        h.insert(&[("a", &a, 1)]).await;
        let first = spawn_local(h.call(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let second = spawn_local(h.call(2));
        tokio::time::sleep(Duration::from_millis(20)).await;
        a.0.refuses.set(false);
        a.set_down(false);
        let start = Instant::now();
        assert!(first.await.unwrap().is_ok());
        assert!(second.await.unwrap().is_ok());
        assert!(
            start.elapsed() < Duration::from_millis(100),
            "{:?}",
            start.elapsed()
        );
    });
}

#[test]
fn a_request_that_finds_the_free_place_taken_does_not_wait_for_ever() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(60_000));
        a.0.takes_one.set(true);
        a.set_down(true);
        h.insert(&[("a", &a, 1)]).await;
        let first = spawn_local(h.call(1));
        let second = spawn_local(h.call(2));
        tokio::time::sleep(Duration::from_secs(1)).await;
        a.set_down(false);
        let start = Instant::now();
        let second = tokio::time::timeout(Duration::from_secs(10), second).await;
        let error = second.unwrap().unwrap().unwrap_err();
        assert!(matches!(error.reason(), Reason::Failfast(_)), "{error}");
        assert_eq!(start.elapsed().as_secs(), 3);
        assert_eq!(a.0.calls.get(), 1);
        first.abort();
    });
}

#[test]
fn an_endpoint_that_comes_back_gets_its_share_again() {
    run(async {
        let (h, a, b) = (Harness::new(10), Fake::taking(5), Fake::taking(5));
        h.insert(&[("a", &a, 1), ("b", &b, 1)]).await;
        b.0.loses.set(true);
        h.load(100, 1).await;
        b.0.loses.set(false);
        b.0.refuses.set(true);
        while !b.0.status.is_down() {
            tokio::time::advance(Duration::from_secs(5)).await;
            assert_eq!(h.load(100, 1).await, 0);
        }
        b.0.refuses.set(false);
        b.set_down(false);
        // The endpoint starts anew at the default estimate, which decays below its peer's in 20 s; the penalty took 50.
        assert_eq!(h.load(200, 20).await, 0);
        shares(&[&a, &b]);
        assert_eq!(h.load(200, 10).await, 0);
        let share = shares(&[&a, &b])[1];
        assert!(share > 0.3, "{share}");
    });
}

#[test]
fn without_endpoints_the_first_waits_and_later_ones_fail_at_once() {
    run(async {
        let h = Harness::new(10);
        let start = Instant::now();
        let error = h.call(0).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Failfast(Unavailable::NotResolved));
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        h.insert(&[]).await;
        let error = h.call(1).await.unwrap_err();
        assert_eq!(
            error.reason(),
            Reason::Unavailable(Unavailable::NoEndpoints)
        );
        assert_eq!(start.elapsed(), Duration::from_secs(3));
        assert_eq!(h.balance.unavailable(), Some(Unavailable::NoEndpoints));

        h.insert(&[("a", &Fake::taking(1), 1)]).await;
        assert_eq!(h.balance.unavailable(), None);
        assert!(h.call(2).await.is_ok());
    });
}

#[test]
fn a_request_waits_for_an_endpoint_that_comes_back() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(1));
        a.set_down(true);
        h.insert(&[("a", &a, 1)]).await;
        let call = spawn_local(h.call(0));
        tokio::time::sleep(Duration::from_millis(800)).await;
        a.set_down(false);
        assert!(call.await.unwrap().is_ok());
        assert!(h.unreachable.get() > 0, "discovery is told");
    });
}

#[test]
fn a_request_that_was_refused_everywhere_says_so_in_the_end() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(1));
        a.0.refuses.set(true);
        h.insert(&[("a", &a, 1)]).await;
        let error = h.call(0).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectRefused);
        let error = h.call(0).await.unwrap_err();
        assert_eq!(
            error.reason(),
            Reason::Unavailable(Unavailable::Unreachable)
        );
    });
}

#[test]
fn a_request_that_an_endpoint_returns_late_goes_to_another_one() {
    run(async {
        let (h, a, b) = (Harness::new(10), Fake::taking(1), Fake::taking(1));
        // Like a peer proxy whose own queue waited in vain for its application.
        a.0.returns.set(Some(Duration::from_secs(4)));
        h.insert(&[("a", &a, 1), ("b", &b, 1)]).await;
        for number in 0..20 {
            assert!(h.call(number).await.is_ok());
        }
        assert!(a.0.calls.get() > 0);
    });
}

#[test]
fn the_queue_is_bounded() {
    run(async {
        let (h, a) = (Harness::new(2), Fake::taking(1));
        a.set_down(true);
        h.insert(&[("a", &a, 1)]).await;
        let waiting: Vec<_> = (0..3).map(|n| spawn_local(h.call(n))).collect();
        settle().await;
        let error = h.call(9).await.unwrap_err();
        assert_eq!(error.reason(), Reason::QueueFull);
        a.set_down(false);
        for call in waiting {
            assert!(call.await.unwrap().is_ok());
        }
    });
}

#[test]
fn churn_under_load_fails_nothing() {
    run(async {
        let h = Harness::new(1000);
        let fakes: HashMap<_, _> = ["a", "b", "c", "d"].map(|k| (k, Fake::taking(3))).into();
        h.insert(&[("a", &fakes["a"], 1)]).await;
        let churn = async {
            for n in 0..1000 {
                let key = ["b", "c", "d"][n % 3];
                let change = match n / 3 % 2 {
                    0 => Change::Insert(key, fakes[key].member(1)),
                    _ => Change::Remove(key),
                };
                h.updates.send(Ok(vec![change])).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let (failures, ()) = tokio::join!(h.load(400, 5), churn);
        assert_eq!(failures, 0);
        assert!(fakes["b"].0.calls.get() > 0);
    });
}

#[test]
fn an_updated_endpoint_serves_until_its_successor_is_ready() {
    run(async {
        let (h, old, new) = (Harness::new(10), Fake::taking(1), Fake::taking(1));
        h.insert(&[("a", &old, 1)]).await;
        new.set_down(true);
        h.insert(&[("a", &new, 2)]).await;
        assert!(h.call(0).await.is_ok());
        assert_eq!((old.0.calls.get(), new.0.calls.get()), (1, 0));
        new.set_down(false);
        settle().await;
        assert!(h.call(1).await.is_ok());
        assert_eq!((old.0.calls.get(), new.0.calls.get()), (1, 1));
    });
}

#[test]
fn an_ejected_endpoint_gets_nothing_until_its_time_is_over() {
    run(async {
        let (h, a, b) = (Harness::new(10), Fake::taking(5), Fake::taking(5));
        h.insert(&[("a", &a, 1), ("b", &b, 1)]).await;
        let until = Instant::now() + Duration::from_secs(10);
        a.0.status.eject(Some(until));
        assert_eq!(h.load(100, 5).await, 0);
        assert_eq!(shares(&[&a, &b]), [0.0, 1.0]);
        assert_eq!(h.balance.inspect()["endpoints"][0]["state"], "ejected");
        tokio::time::sleep_until(until).await;
        settle().await;
        assert_eq!(h.load(100, 5).await, 0);
        let shares = shares(&[&a, &b]);
        assert!(shares[0] > 0.4, "{shares:?}");
    });
}

#[test]
fn a_breaker_that_closes_early_readmits_at_once() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(5));
        h.insert(&[("a", &a, 1)]).await;
        a.0.status
            .eject(Some(Instant::now() + Duration::from_secs(60)));
        let waits = spawn_local(h.call(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(a.0.calls.get(), 0);
        a.0.status.eject(None);
        assert_eq!(waits.await.unwrap().unwrap().number, 1);
    });
}

#[test]
fn all_ejected_is_a_cause_of_its_own() {
    run(async {
        let (h, a) = (Harness::new(10), Fake::taking(5));
        h.insert(&[("a", &a, 1)]).await;
        a.0.status
            .eject(Some(Instant::now() + Duration::from_secs(60)));
        let error = h.call(1).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Failfast(Unavailable::Ejected));
        let error = h.call(2).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Unavailable(Unavailable::Ejected));
    });
}
