//! A balancer over fake endpoints, in virtual time.

use crate::file::{BalancerSettings, BreakerSettings};
use futures::{StreamExt, future::LocalBoxFuture, stream::LocalBoxStream};
use linkerd_balance::{
    Affinity, Arrival, Balance, LoadHandle, LoadKind, LoadSettings, MeasuredResponse, Member,
    Metrics, Params, Preferences, SlowStart, ZonePreference,
    affinity::AffinityKey,
    breaker::{BreakerGate, BreakerGroup, OutcomeKind},
};
use linkerd_proxy_core::{
    Backoff, EndpointStatus, Error, Reason, Rejected,
    endpoint::{Capacity, FailureAccrual, LoadPenalty, Outage, SuccessRate},
    http::{QueueSettings, ResponseBody},
    task::spawn_local,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::{Cell, RefCell},
    num::NonZeroU32,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::LocalSet,
    time::Instant,
};
use tower::{ServiceExt, discover::Change};
use tower_service::Service;

/// A request, and also its response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    pub number: u32,
    /// The affinity key.
    pub key: Option<u64>,
    /// The duration, in place of the endpoint's latency.
    pub stream: Option<Duration>,
    /// The endpoint that answered.
    pub endpoint: &'static str,
    pub is_failure: bool,
}

impl Arrival for Message {
    fn affinity(&self, _: &Affinity) -> Option<AffinityKey> {
        self.key.map(|key| AffinityKey::of(&key.to_be_bytes()))
    }
}

impl MeasuredResponse for Message {
    fn measure(&mut self, load: LoadHandle) {
        let status = if self.is_failure { 503 } else { 200 };
        let response = http::Response::builder().status(status).body("").unwrap();
        load.answered(&mut ResponseBody::full(response));
    }
}

/// A fake endpoint.
#[derive(Clone)]
pub struct Fake(pub Rc<FakeState>);

pub struct FakeState {
    pub name: Cell<&'static str>,
    pub status: EndpointStatus,
    pub latency: Cell<Duration>,
    /// The time until a refusal.
    pub refusal: Cell<Duration>,
    pub refuses: Cell<bool>,
    pub loses: Cell<bool>,
    /// Returns each request after this time, possibly unprocessed.
    pub returns: Cell<Option<Duration>>,
    /// Breaks off the bodies of its clients.
    pub breaks: Cell<bool>,
    /// The share of failures among its responses, and the fraction of the next failure that is due.
    pub fails: Cell<(f64, f64)>,
    /// Takes one request each time that it is up.
    pub takes_one: Cell<bool>,
    pub capacity: RefCell<Rc<Semaphore>>,
    pub calls: Cell<u32>,
    pub in_flight: Cell<u32>,
    pub gate: RefCell<Option<BreakerGate>>,
}

impl Default for Fake {
    fn default() -> Self {
        Self(Rc::new(FakeState {
            name: Cell::new(""),
            status: EndpointStatus::new(Capacity::OnDemand),
            latency: Cell::default(),
            refusal: Cell::default(),
            refuses: Cell::default(),
            loses: Cell::default(),
            returns: Cell::default(),
            breaks: Cell::default(),
            fails: Cell::default(),
            takes_one: Cell::default(),
            capacity: RefCell::new(Rc::new(Semaphore::new(Semaphore::MAX_PERMITS))),
            calls: Cell::default(),
            in_flight: Cell::default(),
            gate: RefCell::default(),
        }))
    }
}

impl Fake {
    pub fn taking(millis: u64) -> Self {
        let fake = Self::default();
        fake.0.latency.set(Duration::from_millis(millis));
        fake
    }

    pub fn member(&self, weight: u32) -> Member<Self> {
        Member::new(self.clone(), self.0.status.clone(), weight)
    }

    pub fn set_down(&self, down: bool) {
        let status = &self.0.status;
        status.set_outage(down.then(|| Outage {
            reason: Reason::ConnectRefused,
            until: Instant::now(),
            failures: 1,
            error: "refused".into(),
            peer: None,
            since: Instant::now(),
        }));
        status.wake();
    }

    async fn exchange(&self, mut request: Message) -> Result<Message, Rejected<Message>> {
        let fake = &self.0;
        fake.calls.set(fake.calls.get() + 1);
        if fake.refuses.get() {
            tokio::time::sleep(fake.refusal.get()).await;
            self.set_down(true);
            return Err(Rejected::returned(Reason::ConnectRefused, request));
        }
        if fake.loses.get() {
            return Err(Rejected::lost(Reason::ConnectionLost));
        }
        if let Some(after) = fake.returns.get() {
            tokio::time::sleep(after).await;
            return Err(Rejected::returned(Reason::ConnectRefused, request).sent());
        }
        let capacity = fake.capacity.borrow().clone();
        let permit = capacity.acquire().await.unwrap();
        tokio::time::sleep(request.stream.unwrap_or(fake.latency.get())).await;
        drop(permit);
        if fake.breaks.get() {
            return Err(Rejected::lost(Reason::BrokenBody));
        }
        let (share, due) = fake.fails.get();
        request.is_failure = due + share >= 1.0;
        fake.fails.set((share, (due + share).fract()));
        request.endpoint = fake.name.get();
        Ok(request)
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
        let pass = self.0.gate.borrow_mut().as_mut().map(BreakerGate::admit);
        fake.0.in_flight.set(fake.0.in_flight.get() + 1);
        Box::pin(async move {
            let result = fake.exchange(request).await;
            fake.0.in_flight.set(fake.0.in_flight.get() - 1);
            match (pass, &result) {
                (None, _) => {}
                (Some(pass), Err(rejected)) => pass.failed(&rejected.error),
                (Some(pass), Ok(answer)) => {
                    let kind = match answer.is_failure {
                        true => OutcomeKind::Failure,
                        false => OutcomeKind::Success,
                    };
                    pass.record(kind, None, Instant::now());
                }
            }
            result
        })
    }
}

type Batch = Result<Vec<Change<&'static str, Member<Fake>>>, Error>;

pub struct Harness {
    pub updates: mpsc::Sender<Batch>,
    pub balance: Balance<&'static str, Fake>,
    pub unreachable: Rc<Cell<u32>>,
    pub breakers: Option<BreakerGroup>,
}

impl Harness {
    pub fn new(capacity: usize) -> Self {
        Self::with(capacity, &BalancerSettings::default())
    }

    pub fn with(capacity: usize, settings: &BalancerSettings) -> Self {
        let unreachable = Rc::new(Cell::new(0));
        let seen = unreachable.clone();
        let preferences = Preferences {
            affinity: settings
                .affinity
                .then(|| Affinity::Cookie("key".to_owned())),
            zone: settings.prefer_zone.then_some(ZonePreference),
            slow_start: settings.slow_start.map(|window| SlowStart::new(window.0)),
        };
        let params = Params {
            name: "test".to_owned(),
            queue: QueueSettings {
                capacity,
                failfast: Duration::from_secs(3),
            },
            load: load(settings),
            preferences: (!preferences.is_none()).then(|| Box::new(preferences)),
            metrics: Metrics::detached(),
            rng: SmallRng::seed_from_u64(11),
            on_unreachable: Box::new(move || seen.set(seen.get() + 1)),
        };
        let (updates, rx) = mpsc::channel::<Batch>(16);
        let stream: LocalBoxStream<'static, Batch> =
            futures::stream::unfold(rx, |mut rx| async { rx.recv().await.map(|b| (b, rx)) })
                .boxed_local();
        let breakers = settings.breaker.as_ref().map(accrual);
        Self {
            updates,
            balance: Balance::new::<Message, _>(stream, params),
            unreachable,
            breakers: breakers
                .map(|rules| BreakerGroup::new("test", rules, SmallRng::seed_from_u64(12))),
        }
    }

    pub async fn insert(&self, endpoints: &[(&'static str, &Fake, u32)]) {
        let changes = endpoints
            .iter()
            .map(|(key, fake, weight)| Change::Insert(*key, fake.member(*weight)));
        self.send(changes.collect()).await;
    }

    pub async fn send(&self, changes: Vec<Change<&'static str, Member<Fake>>>) {
        self.updates.send(Ok(changes)).await.unwrap();
        settle().await;
    }

    pub fn call(&self, number: u32) -> impl Future<Output = Result<Message, Error>> + use<> {
        self.send_request(Message {
            number,
            ..Default::default()
        })
    }

    pub fn send_request(
        &self,
        request: Message,
    ) -> impl Future<Output = Result<Message, Error>> + use<> {
        self.balance.clone().oneshot(request)
    }

    /// Sends `rate` requests a second for `seconds`, and returns the number of failures.
    pub async fn load(&self, rate: u32, seconds: u32) -> u32 {
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
}

fn load(settings: &BalancerSettings) -> LoadSettings {
    LoadSettings {
        kind: match settings.least_pending {
            true => LoadKind::LeastPending,
            false => LoadKind::PeakEwma,
        },
        penalty: settings.penalty.as_ref().map(|penalty| {
            Rc::new(LoadPenalty {
                penalty: penalty.penalty.0,
                decay: penalty.decay.0,
                max_retry_after: Duration::from_secs(300),
            })
        }),
        ..Default::default()
    }
}

fn accrual(settings: &BreakerSettings) -> FailureAccrual {
    let (min, max) = settings.backoff;
    FailureAccrual {
        max_consecutive: NonZeroU32::new(settings.consecutive),
        success_rate: settings
            .success_rate
            .map(|(percent, min_requests)| SuccessRate {
                threshold: percent * 100,
                window: Duration::from_secs(10),
                min_requests,
            }),
        limits_count: true,
        backoff: Backoff::new(min.0, max.0, 0.0).unwrap(),
        respects_retry_after: false,
        min_ready_endpoints: settings.floor,
    }
}

/// Lets the driver process the updates that were sent.
pub async fn settle() {
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
}

pub fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test)
}

pub fn shares(fakes: &[&Fake]) -> Vec<f64> {
    let calls: Vec<_> = fakes.iter().map(|f| f64::from(f.0.calls.take())).collect();
    let total: f64 = calls.iter().sum();
    calls.iter().map(|n| n / total).collect()
}
