//! Requests at a fixed rate, independent of the time of their answers.

use linkerd_tests::{Http1, Http2, Reply, eventually, netns::ClusterPod};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval, timeout},
};

/// Background traffic of a pod: HTTP/2 over one connection, and each fourth request over a new HTTP/1 connection.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    /// The number of requests answered with 200 so far.
    answered: Arc<AtomicUsize>,
    started: Instant,
    running: JoinHandle<TrafficReport>,
}

/// The results of the traffic.
#[derive(Debug, Default)]
pub struct TrafficReport {
    /// The number of requests answered with 200.
    pub answered: usize,
    /// The number of other results, by their kind.
    pub failures: BTreeMap<String, usize>,
    /// The start of the last request that failed or took more than [`SLOW`], since the start of the traffic.
    pub last_trouble: Option<Duration>,
}

impl Traffic {
    pub fn start(pod: &ClusterPod, to: SocketAddr, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::default();
        let running = run(to, pause, stop.clone(), Arc::clone(&answered));
        let running = tokio::spawn(pod.enter(running));
        Self {
            stop,
            answered,
            started: Instant::now(),
            running,
        }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until this many more requests were answered.
    pub async fn answers(&self, more: usize) {
        let goal = self.answered.load(SeqCst) + more;
        eventually(PATIENCE, "requests are answered", || async {
            (self.answered.load(SeqCst) >= goal).then_some(())
        })
        .await;
    }

    pub async fn finish(self) -> TrafficReport {
        self.stop.store(true, SeqCst);
        self.running.await.unwrap()
    }
}

async fn run(
    to: SocketAddr,
    pause: Duration,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> TrafficReport {
    let start = Instant::now();
    let mut http2 = Arc::new(Http2::connect(to).await);
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut requests = JoinSet::new();
    let mut number = 0;
    let mut report = TrafficReport::default();
    while !stop.load(SeqCst) {
        ticks.tick().await;
        number += 1;
        let begun = start.elapsed();
        if number % 4 == 0 {
            // Connected here: spawned tasks run in another namespace.
            let mut client = Http1::connect(to).await.host_form();
            requests.spawn(async move { (begun, tell(client.get(URI)).await) });
        } else {
            if !http2.is_open() {
                http2 = Arc::new(Http2::connect(to).await);
            }
            let client = http2.clone();
            requests.spawn(async move { (begun, tell(client.get(URI)).await) });
        }
        while let Some(done) = requests.try_join_next() {
            let (begun, result) = done.unwrap();
            report.add(begun, start.elapsed() - begun, result);
        }
        answered.store(report.answered, SeqCst);
    }
    while let Some(done) = requests.join_next().await {
        let (begun, result) = done.unwrap();
        report.add(begun, start.elapsed() - begun, result);
    }
    report
}

async fn tell(
    request: impl Future<Output = Result<Reply, linkerd_tests::BoxError>>,
) -> Result<(), String> {
    match timeout(PATIENCE, request).await {
        Ok(Ok(reply)) if reply.status == 200 => Ok(()),
        Ok(Ok(reply)) => Err(format!(
            "{} {} {}",
            reply.status,
            reply.header("proxy-status").unwrap_or_default(),
            reply.header("l5d-proxy-error").unwrap_or_default()
        )),
        Ok(Err(error)) => Err(format!("{error:?}")),
        Err(_) => Err(format!("no answer in {PATIENCE:?}")),
    }
}

impl TrafficReport {
    fn add(&mut self, begun: Duration, took: Duration, result: Result<(), String>) {
        if result.is_err() || took > SLOW {
            self.last_trouble = self.last_trouble.max(Some(begun));
        }
        match result {
            Ok(()) => self.answered += 1,
            Err(failure) => *self.failures.entry(failure).or_default() += 1,
        }
    }
}

const URI: &str = "http://api.test/";
/// Time after which a client gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The limit of a normal answer, which takes a millisecond on a machine that is not busy.
const SLOW: Duration = Duration::from_secs(2);
