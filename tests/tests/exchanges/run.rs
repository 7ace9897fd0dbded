//! A run: concurrent cases until the time is over, and a check of the proxy afterwards.

use crate::{
    client::{self, Way},
    ledger::Ledger,
    oracle::{Evidence, Kind, judge, may_end, may_go_away},
    plan::{Case, Version},
};
use linkerd_tests::{Proxy, eventually};
use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::task::JoinSet;

/// Options of a run, from the environment.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub seed: u64,
    time: Duration,
    /// Only this case, repeatedly.
    case: Option<u64>,
    /// The first case.
    first: u64,
    carried: bool,
}

/// The results of the exchanges.
#[derive(Debug, Default)]
struct Report {
    kinds: BTreeMap<(Version, Kind), u64>,
    exchanges: u64,
    cases: u64,
    /// Responses that report a lost endpoint without a trace at any endpoint.
    lost_unseen: u64,
}

/// A proxy's resources.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    descriptors: usize,
    memory: u64,
}

impl Options {
    /// `LINKERD_TESTS_SEED`, `LINKERD_TESTS_EXCHANGE_SECONDS`, `LINKERD_TESTS_EXCHANGE_CASE`, `LINKERD_TESTS_EXCHANGE_FIRST`.
    pub fn read(seconds: u64, carried: bool) -> Self {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .and_then(|value| value.parse().ok())
        };
        let clock = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            u64::from(since.map_or(0, |since| since.subsec_nanos()))
        };
        Self {
            seed: number("LINKERD_TESTS_SEED").unwrap_or_else(clock),
            time: Duration::from_secs(number("LINKERD_TESTS_EXCHANGE_SECONDS").unwrap_or(seconds)),
            case: number("LINKERD_TESTS_EXCHANGE_CASE"),
            first: number("LINKERD_TESTS_EXCHANGE_FIRST").unwrap_or(0),
            carried,
        }
    }

    /// Runs cases until the time is over.
    ///
    /// # Panics
    ///
    /// At the first violation.
    pub async fn run(self, ledger: &Arc<Ledger>, way: Way) {
        let mut report = Report::default();
        let start = Instant::now();
        let mut running = JoinSet::new();
        let mut number = self.case.unwrap_or(self.first);
        loop {
            while running.len() < AT_A_TIME && start.elapsed() < self.time {
                let case = Case::generate(self.seed, number, self.carried);
                if self.case.is_none() {
                    number += 1;
                } else if !running.is_empty() {
                    break;
                }
                ledger.expect(&case);
                running.spawn(async move {
                    let seen = client::run(&case, way).await;
                    (case, seen)
                });
            }
            let Some(done) = running.join_next().await else {
                break;
            };
            let (case, seen) = done.unwrap();
            let judged = report.add(&case, &seen, ledger, way);
            if let Err(wrong) = judged {
                self.fail(&wrong, &case, &seen, ledger);
            }
            if let Some(wrong) = ledger.violation() {
                let id = wrong
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|word| word.parse::<u64>().ok());
                let case = id.max().map_or(case.number, |id| id / 100);
                let case = Case::generate(self.seed, case, self.carried);
                self.fail(&wrong, &case, &[], ledger);
            }
            ledger.judged(&case);
        }
        println!("{}", report.table(self.seed, start.elapsed(), ledger));
        let (lost, ends) = (report.lost_unseen, ledger.tally());
        assert!(
            lost <= ends.idle_ends + ends.outages * AT_A_TIME as u64,
            "{lost} requests were lost that no endpoint lost: {ends:?}"
        );
    }

    fn fail(self, wrong: &str, case: &Case, seen: &[client::Seen], ledger: &Ledger) -> ! {
        let mut said = format!("seed {}, case {}: {wrong}\n", self.seed, case.number);
        for (index, exchange) in case.exchanges.iter().enumerate() {
            let (seen, attempts) = (seen.get(index), ledger.attempts(exchange.id));
            let _ = match wrong.contains(&exchange.id.to_string()) {
                true => writeln!(
                    said,
                    "\n{exchange:#?}\nseen: {seen:?}\nattempts: {attempts:?}\n"
                ),
                false => {
                    let (id, method) = (exchange.id, exchange.ask.method);
                    let end = seen.map(|seen| &seen.end);
                    let answers = attempts.iter().enumerate().map(|(number, attempt)| {
                        (attempt.endpoint, exchange.answer(number).end, attempt.end)
                    });
                    let answers: Vec<_> = answers.collect();
                    writeln!(said, "beside it: {method} {id}: {end:?} {answers:?}")
                }
            };
        }
        let Case {
            version,
            service,
            depth,
            cuts,
            slow,
            ..
        } = case;
        panic!("{said}\n{version:?} {service:?}, depth {depth}, {cuts:?}, slow: {slow}\n");
    }
}

impl Report {
    fn add(
        &mut self,
        case: &Case,
        seen: &[client::Seen],
        ledger: &Ledger,
        way: Way,
    ) -> Result<(), String> {
        self.cases += 1;
        let http2 = case.version == Version::Http2;
        let explicit = way.explicit;
        let mut ends = http2 && !explicit && may_go_away(seen);
        for (exchange, seen) in case.exchanges.iter().zip(seen) {
            let attempts = ledger.attempts(exchange.id);
            let evidence = Evidence {
                case,
                exchange,
                seen,
                attempts: &attempts,
                explicit,
                may_end: ends,
            };
            let kind =
                judge(evidence).map_err(|wrong| format!("exchange {}: {wrong}", exchange.id))?;
            self.lost_unseen += u64::from(evidence.lost_unseen());
            *self.kinds.entry((case.version, kind)).or_default() += 1;
            self.exchanges += 1;
            ends = ends || !http2 && may_end(exchange, seen, &attempts);
        }
        Ok(())
    }

    fn table(&self, seed: u64, took: Duration, ledger: &Ledger) -> String {
        let (cases, exchanges) = (self.cases, self.exchanges);
        let rate = exchanges as f64 / took.as_secs_f64();
        let mut table =
            format!("seed {seed}: {exchanges} exchanges in {cases} cases, {rate:.0} a second\n");
        for ((version, kind), count) in &self.kinds {
            let _ = writeln!(table, "{count:>10}  {version:?} {kind:?}");
        }
        let _ = writeln!(
            table,
            "{:>10}  lost with an idle connection",
            self.lost_unseen
        );
        let _ = write!(table, "{:?}", ledger.tally());
        table
    }
}

impl Usage {
    /// The proxy's current usage.
    pub fn of(proxy: &Proxy) -> Self {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", proxy.pid()));
        Self {
            descriptors: descriptors.map_or(0, Iterator::count),
            memory: proxy.rss(),
        }
    }

    /// Checks that a proxy's usage is back to its start, and ends it.
    pub async fn check_after(self, mut proxy: Proxy) {
        assert!(proxy.is_alive());
        assert_eq!(proxy.admin.get("/ready").await.status, 200);
        let proxied = &proxy;
        eventually(IDLE, "no request is in flight", || async move {
            let state = proxied.admin.state().await;
            let workers = state["workers"].as_array().unwrap();
            let side = |side: &str| {
                workers
                    .iter()
                    .map(|worker| worker[side]["in_flight"].as_u64().unwrap())
                    .sum::<u64>()
            };
            (side("inbound") + side("outbound") == 0).then_some(())
        })
        .await;
        eventually(IDLE, "descriptors are closed", || async move {
            (Self::of(proxied).descriptors <= self.descriptors + SPARE_DESCRIPTORS).then_some(())
        })
        .await;
        let after = Self::of(&proxy);
        println!("before: {self:?}, after: {after:?}");
        assert!(
            after.memory < self.memory + SPARE_MEMORY,
            "{self:?} {after:?}"
        );
        let log = proxy.log();
        assert!(!log.contains("panicked"), "{log}");
        proxy.terminate();
        let status = proxy.wait_exit(Duration::from_secs(10)).await;
        assert_eq!(status.code(), Some(0));
    }
}

/// Concurrent cases.
const AT_A_TIME: usize = 24;

/// Longer than any idle time limit.
const IDLE: Duration = Duration::from_secs(30);

/// Connections to the control plane, and of the scrape itself.
const SPARE_DESCRIPTORS: usize = 16;

/// Memory kept by the allocator and the metrics of endpoints.
const SPARE_MEMORY: u64 = 64 << 20;
