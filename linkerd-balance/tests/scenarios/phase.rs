//! The course of a scenario file.

use crate::{
    file::{EndpointSettings, Expectations, Phase, Scenario},
    harness::{Fake, Harness, Message, settle},
};
use linkerd_balance::{Member, breaker::BreakerGate};
use linkerd_proxy_core::task::spawn_local;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};
use tower::discover::Change;

/// An endpoint of a scenario.
struct Endpoint {
    fake: Fake,
    weight: u32,
    is_local: bool,
    is_known: bool,
}

/// The requests of a phase that have ended.
#[derive(Default)]
struct Results {
    latencies: Vec<Duration>,
    successes: usize,
    /// The endpoints of each key.
    keys: BTreeMap<u64, BTreeSet<&'static str>>,
}

/// Runs a scenario. Returns the values outside its bands.
pub async fn run(scenario: &Scenario) -> Vec<String> {
    let mut run = Run {
        harness: Harness::with(10_000, &scenario.balancer),
        endpoints: BTreeMap::new(),
        keys: BTreeMap::new(),
        next: 0,
    };
    run.change(&scenario.endpoints).await;
    let mut problems = Vec::new();
    for (number, phase) in scenario.phases.iter().enumerate() {
        run.change(&phase.change).await;
        let results = run.traffic(phase).await;
        let found = run.check(&phase.expect, results);
        problems.extend(
            found
                .into_iter()
                .map(|problem| format!("phase {number}: {problem}")),
        );
    }
    problems
}

struct Run {
    harness: Harness,
    endpoints: BTreeMap<&'static str, Endpoint>,
    /// The endpoint of each key in the phase before.
    keys: BTreeMap<u64, BTreeSet<&'static str>>,
    next: u32,
}

impl Run {
    async fn change(&mut self, changes: &BTreeMap<String, EndpointSettings>) {
        let mut batch = Vec::new();
        for (name, settings) in changes {
            let name = leaked(name);
            let endpoint = self.endpoints.entry(name).or_insert_with(|| Endpoint {
                fake: Fake::default(),
                weight: 1,
                is_local: settings.local,
                is_known: false,
            });
            endpoint.set(name, settings);
            let is_known = !settings.absent.unwrap_or(false);
            match (endpoint.is_known, is_known) {
                (false, true) => {
                    batch.push(Change::Insert(name, endpoint.member(name, &self.harness)))
                }
                (true, false) => {
                    endpoint.fake.0.gate.take();
                    batch.push(Change::Remove(name));
                }
                _ => {}
            }
            endpoint.is_known = is_known;
        }
        self.harness.send(batch).await;
    }

    async fn traffic(&mut self, phase: &Phase) -> Results {
        for endpoint in self.endpoints.values() {
            endpoint.fake.0.calls.set(0);
        }
        let results = Rc::new(RefCell::new(Results::default()));
        let end = Instant::now() + phase.length.0;
        if phase.rate > 0 {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / phase.rate);
            while ticks.tick().await < end {
                let exchange = self.exchange(phase, &results);
                spawn_local(exchange);
            }
        }
        let next = RefCell::new(&mut *self);
        let client = async || {
            while Instant::now() < end {
                let exchange = next.borrow_mut().exchange(phase, &results);
                exchange.await;
            }
        };
        futures::future::join_all((0..phase.clients).map(|_| client())).await;
        settle().await;
        results.take()
    }

    /// Sends the next request.
    fn exchange(
        &mut self,
        phase: &Phase,
        results: &Rc<RefCell<Results>>,
    ) -> impl Future<Output = ()> + use<> {
        let number = self.next;
        self.next += 1;
        let stream = phase
            .streams
            .filter(|(every, _)| number.is_multiple_of(*every));
        let key = (phase.keys > 0).then(|| u64::from(number) % phase.keys);
        let call = self.harness.send_request(Message {
            number,
            key,
            stream: stream.map(|(_, length)| length.0),
            ..Default::default()
        });
        let results = results.clone();
        async move {
            let start = Instant::now();
            let answer = call.await;
            let mut results = results.borrow_mut();
            results.latencies.push(start.elapsed());
            let Ok(answer) = answer else {
                return;
            };
            results.successes += usize::from(!answer.is_failure);
            if let Some(key) = key {
                results.keys.entry(key).or_default().insert(answer.endpoint);
            }
        }
    }

    fn check(&mut self, expect: &Expectations, mut results: Results) -> Vec<String> {
        let mut bands = Bands(Vec::new());
        let calls = |name: &str| f64::from(self.endpoints[name].fake.0.calls.get());
        let known = self
            .endpoints
            .iter()
            .filter(|(_, endpoint)| endpoint.is_known);
        let known: Vec<_> = known.map(|(name, _)| *name).collect();
        let total: f64 = known.iter().map(|name| calls(name)).sum();
        for (name, band) in &expect.shares {
            bands.check(&format!("share of {name}"), calls(name) / total, *band);
        }
        for (name, (least, most)) in &expect.requests {
            let band = (f64::from(*least), f64::from(*most));
            bands.check(&format!("requests of {name}"), calls(name), band);
        }
        if let Some(band) = expect.success {
            let share = results.successes as f64 / results.latencies.len() as f64;
            bands.check("successes", share, band);
        }
        if let Some((least, most)) = expect.p99 {
            results.latencies.sort_unstable();
            let p99 = results.latencies[results.latencies.len() * 99 / 100];
            let band = (least.0.as_secs_f64(), most.0.as_secs_f64());
            bands.check("p99 in seconds", p99.as_secs_f64(), band);
        }
        if let Some(band) = expect.most {
            let most = known.iter().map(|name| calls(name)).fold(0.0, f64::max);
            bands.check("most requests", most / (total / known.len() as f64), band);
        }
        if let Some(band) = expect.most_in_flight {
            let in_flight = |name: &&str| f64::from(self.endpoints[*name].fake.0.in_flight.get());
            let average = known.iter().map(in_flight).sum::<f64>() / known.len() as f64;
            let most = known.iter().map(in_flight).fold(0.0, f64::max);
            bands.check("most in flight", most / average, band);
        }
        let keys = results.keys.len() as f64;
        if let Some(band) = expect.split_keys {
            let split = results
                .keys
                .values()
                .filter(|endpoints| endpoints.len() > 1);
            bands.check("split keys", split.count() as f64 / keys, band);
        }
        if let Some(band) = expect.moved_keys {
            let keys_then = &self.keys;
            let moved = results
                .keys
                .iter()
                .filter(|(key, now)| keys_then.get(key) != Some(now));
            bands.check("moved keys", moved.count() as f64 / keys, band);
        }
        self.keys = results.keys;
        self.check_states(expect, &mut bands);
        bands.0
    }

    fn check_states(&self, expect: &Expectations, bands: &mut Bands) {
        let shown = self.harness.balance.inspect();
        for endpoint in shown["endpoints"].as_array().unwrap() {
            let name = endpoint["endpoint"].as_str().unwrap();
            if let Some(expected) = expect.states.get(name)
                && endpoint["state"] != **expected
            {
                bands.0.push(format!(
                    "{name} is {} and not {expected}",
                    endpoint["state"]
                ));
            }
        }
    }
}

impl Endpoint {
    fn set(&mut self, name: &'static str, settings: &EndpointSettings) {
        let fake = &self.fake.0;
        fake.name.set(name);
        if let Some(latency) = settings.latency {
            fake.latency.set(latency.0);
        }
        if let Some(capacity) = settings.capacity {
            *fake.capacity.borrow_mut() = Rc::new(Semaphore::new(capacity));
        }
        if let Some(share) = settings.fails {
            fake.fails.set((share, 0.0));
        }
        if let Some(refuses) = settings.refuses {
            fake.refuses.set(refuses);
            if !refuses {
                self.fake.set_down(false);
            }
        }
        fake.loses.set(settings.loses.unwrap_or(fake.loses.get()));
        fake.breaks
            .set(settings.breaks.unwrap_or(fake.breaks.get()));
        self.weight = settings.weight.unwrap_or(self.weight);
    }

    fn member(&self, name: &'static str, harness: &Harness) -> Member<Fake> {
        let member = self.fake.member(self.weight);
        let breakers = harness.breakers.as_ref();
        let breaker = breakers.map(|group| group.breaker(name, member.status.clone()));
        *self.fake.0.gate.borrow_mut() = breaker.clone().map(BreakerGate::new);
        Member {
            breaker,
            is_local: self.is_local,
            ..member
        }
    }
}

/// Values that are outside their bands.
struct Bands(Vec<String>);

impl Bands {
    fn check(&mut self, what: &str, value: f64, (least, most): (f64, f64)) {
        if !(least..=most).contains(&value) {
            self.0.push(format!(
                "{what}: {value:.4} is not within {least} and {most}"
            ));
        }
    }
}

/// A name for the keys of a balancer, leaked; a test has few.
fn leaked(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}
