//! The balancer from outside, in virtual time: shares as bands, waits to the millisecond.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use futures::{StreamExt, future::LocalBoxFuture, stream::LocalBoxStream};
use linkerd_balance::{
    Arrival, Balance, LoadHandle, LoadSettings, MeasuredResponse, Member, Metrics, Params,
};
use linkerd_proxy_core::{
    EndpointStatus, Error, Reason, Rejected, Unavailable,
    endpoint::{Capacity, Outage},
    http::QueueSettings,
    task::spawn_local,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::Cell,
    collections::HashMap,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::mpsc, task::LocalSet, time::Instant};
use tower::{ServiceExt, discover::Change};
use tower_service::Service;

/// A request, and what comes back for it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Message(u32);

impl Arrival for Message {}

impl MeasuredResponse for Message {
    fn measure(&mut self, load: LoadHandle) {
        drop(load);
    }
}

/// An endpoint that does as it is told.
#[derive(Clone, Default)]
struct Fake(Rc<FakeState>);

struct FakeState {
    status: EndpointStatus,
    latency: Cell<Duration>,
    /// How long a refusal takes.
    refusal: Cell<Duration>,
    refuses: Cell<bool>,
    loses: Cell<bool>,
    /// Its clients' bodies break off.
    breaks: Cell<bool>,
    /// Each time that it is up it takes one request.
    takes_one: Cell<bool>,
    calls: Cell<u32>,
}

impl Default for FakeState {
    fn default() -> Self {
        Self {
            status: EndpointStatus::new(Capacity::OnDemand),
            latency: Cell::default(),
            refusal: Cell::default(),
            refuses: Cell::default(),
            loses: Cell::default(),
            breaks: Cell::default(),
            takes_one: Cell::default(),
            calls: Cell::default(),
        }
    }
}

impl Fake {
    fn taking(millis: u64) -> Self {
        let fake = Self::default();
        fake.0.latency.set(Duration::from_millis(millis));
        fake
    }

    fn member(&self, weight: u32) -> Member<Self> {
        Member::new(self.clone(), self.0.status.clone(), weight)
    }

    fn set_down(&self, down: bool) {
        let status = &self.0.status;
        status.set_outage(down.then(|| Outage {
            reason: Reason::ConnectRefused,
            until: Instant::now(),
            failures: 1,
            error: "refused".into(),
            since: Instant::now(),
        }));
        status.wake();
    }
}

impl Service<Message> for Fake {
    type Response = Message;
    type Error = Rejected<Message>;
    type Future = LocalBoxFuture<'static, Result<Message, Rejected<Message>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Rejected<Message>>> {
        let status = &self.0.status;
        if status.is_down() {
            status.register(cx);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Message) -> Self::Future {
        if self.0.takes_one.get() {
            self.set_down(true);
        }
        let fake = self.clone();
        Box::pin(async move {
            let (endpoint, fake) = (&fake, &fake.0);
            fake.calls.set(fake.calls.get() + 1);
            if fake.refuses.get() {
                tokio::time::sleep(fake.refusal.get()).await;
                endpoint.set_down(true);
                return Err(Rejected::returned(Reason::ConnectRefused, request));
            }
            if fake.loses.get() {
                return Err(Rejected::lost(Reason::ConnectionLost));
            }
            tokio::time::sleep(fake.latency.get()).await;
            if fake.breaks.get() {
                return Err(Rejected::lost(Reason::BrokenBody));
            }
            Ok(request)
        })
    }
}

type Batch = Result<Vec<Change<&'static str, Member<Fake>>>, Error>;

struct Harness {
    updates: mpsc::Sender<Batch>,
    balance: Balance<&'static str, Fake>,
    unreachable: Rc<Cell<u32>>,
}

impl Harness {
    fn new(capacity: usize) -> Self {
        let unreachable = Rc::new(Cell::new(0));
        let seen = unreachable.clone();
        let params = Params {
            name: "test".to_owned(),
            queue: QueueSettings {
                capacity,
                failfast: Duration::from_secs(3),
            },
            load: LoadSettings::default(),
            metrics: Metrics::detached(),
            rng: SmallRng::seed_from_u64(11),
            on_unreachable: Box::new(move || seen.set(seen.get() + 1)),
        };
        let (updates, rx) = mpsc::channel::<Batch>(16);
        let stream: LocalBoxStream<'static, Batch> =
            futures::stream::unfold(rx, |mut rx| async { rx.recv().await.map(|b| (b, rx)) })
                .boxed_local();
        Self {
            updates,
            balance: Balance::new::<Message, _>(stream, params),
            unreachable,
        }
    }

    async fn insert(&self, endpoints: &[(&'static str, &Fake, u32)]) {
        let changes = endpoints
            .iter()
            .map(|(key, fake, weight)| Change::Insert(*key, fake.member(*weight)));
        self.updates.send(Ok(changes.collect())).await.unwrap();
        settle().await;
    }

    fn call(&self, request: u32) -> impl Future<Output = Result<Message, Error>> + use<> {
        self.balance.clone().oneshot(Message(request))
    }

    /// Sends `rate` requests a second for `seconds`, and returns how many failed.
    async fn load(&self, rate: u32, seconds: u32) -> u32 {
        let failures = Rc::new(Cell::new(0));
        let mut tasks = Vec::new();
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        for n in 0..rate * seconds {
            ticks.tick().await;
            let (call, failures) = (self.call(n), failures.clone());
            tasks.push(spawn_local(async move {
                if call.await.is_err() {
                    failures.set(failures.get() + 1);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        failures.get()
    }

    /// Sends requests by as many clients, each of which waits for its response before it sends the next; returns how long they
    /// took.
    async fn closed_loop(&self, clients: u32, time: Duration) -> Vec<Duration> {
        let end = Instant::now() + time;
        let client = async |first: u32| {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let start = Instant::now();
                self.call(first).await.unwrap();
                latencies.push(start.elapsed());
            }
            latencies
        };
        let clients = futures::future::join_all((0..clients).map(client)).await;
        clients.concat()
    }
}

/// Lets the driver see what was sent.
async fn settle() {
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test)
}

fn shares(fakes: &[&Fake]) -> Vec<f64> {
    let calls: Vec<_> = fakes.iter().map(|f| f64::from(f.0.calls.take())).collect();
    let total: f64 = calls.iter().sum();
    calls.iter().map(|n| n / total).collect()
}

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
fn equal_endpoints_share_equally() {
    run(async {
        let (h, a, b, c) = (
            Harness::new(10),
            Fake::taking(5),
            Fake::taking(5),
            Fake::taking(5),
        );
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("c", &c, 1)]).await;
        assert_eq!(h.load(500, 10).await, 0);
        for share in shares(&[&a, &b, &c]) {
            assert!((0.25..0.42).contains(&share), "{share}");
        }
    });
}

#[test]
fn an_endpoint_that_turns_slow_loses_its_share_within_ten_seconds() {
    run(async {
        let (h, a, b, c) = (
            Harness::new(10),
            Fake::taking(5),
            Fake::taking(5),
            Fake::taking(5),
        );
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("c", &c, 1)]).await;
        assert_eq!(h.load(500, 10).await, 0);
        c.0.latency.set(Duration::from_millis(100));
        assert_eq!(h.load(500, 10).await, 0);
        shares(&[&a, &b, &c]);
        assert_eq!(h.load(500, 10).await, 0);
        assert!(shares(&[&a, &b, &c])[2] < 0.05);
    });
}

#[test]
fn one_slow_endpoint_of_three_does_not_make_the_slowest_hundredth() {
    run(async {
        let [a, b, slow] = [1, 1, 200].map(Fake::taking);
        let h = Harness::new(10);
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("slow", &slow, 1)])
            .await;
        let mut latencies = h.closed_loop(32, Duration::from_secs(10)).await;
        latencies.sort_unstable();
        let p99 = latencies[latencies.len() * 99 / 100];
        assert!(p99 < Duration::from_millis(20), "{p99:?}");
        let calls = slow.0.calls.get();
        assert!(calls < 20, "{calls}: those of the first moment");
    });
}

#[test]
fn a_new_endpoint_gets_its_share_at_once_beside_faster_ones_than_the_guess() {
    run(async {
        let (h, a, b) = (Harness::new(10), Fake::taking(5), Fake::taking(5));
        h.insert(&[("a", &a, 1)]).await;
        assert_eq!(h.load(100, 5).await, 0);
        shares(&[&a, &b]);
        h.insert(&[("b", &b, 1)]).await;
        assert_eq!(h.load(100, 2).await, 0);
        assert!(shares(&[&a, &b])[1] > 0.3);
    });
}

#[test]
fn weights_divide_the_load() {
    run(async {
        let (h, a, b) = (Harness::new(10), Fake::taking(20), Fake::taking(20));
        h.insert(&[("a", &a, 30_000), ("b", &b, 10_000)]).await;
        assert_eq!(h.load(1000, 10).await, 0);
        let share = shares(&[&a, &b])[0];
        assert!((0.65..0.85).contains(&share), "{share}");
    });
}

#[test]
fn an_endpoint_that_refuses_fails_no_request_and_gets_none_afterwards() {
    run(async {
        let (h, a, b, c) = (
            Harness::new(10),
            Fake::taking(5),
            Fake::taking(5),
            Fake::taking(5),
        );
        c.0.refuses.set(true);
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("c", &c, 1)]).await;
        assert_eq!(h.load(500, 5).await, 0);
        assert_eq!(c.0.calls.get(), 1, "the first attempt took it out");
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
        // It starts anew at the default estimate, which decays below its peer's in 20 s; the penalty took 50.
        assert_eq!(h.load(200, 20).await, 0);
        shares(&[&a, &b]);
        assert_eq!(h.load(200, 10).await, 0);
        let share = shares(&[&a, &b])[1];
        assert!(share > 0.3, "{share}");
    });
}

#[test]
fn quick_failures_do_not_attract_load() {
    run(async {
        let (h, a, b, c) = (
            Harness::new(10),
            Fake::taking(20),
            Fake::taking(20),
            Fake::taking(20),
        );
        c.0.loses.set(true);
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("c", &c, 1)]).await;
        let failures = h.load(500, 10).await;
        assert!(failures < 50, "{failures} of 5000 failed");
    });
}

#[test]
fn a_clients_broken_body_is_no_load_of_the_endpoint() {
    run(async {
        let (h, a, b, c) = (
            Harness::new(10),
            Fake::taking(20),
            Fake::taking(20),
            Fake::taking(20),
        );
        c.0.breaks.set(true);
        h.insert(&[("a", &a, 1), ("b", &b, 1), ("c", &c, 1)]).await;
        h.load(500, 10).await;
        let share = shares(&[&a, &b, &c])[2];
        assert!((0.2..0.5).contains(&share), "{share}");
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
        assert_eq!(waits.await.unwrap().unwrap(), Message(1));
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
