//! Traffic in the background of a test.

use crate::{BoxError, Mesh, Proxy, Reply, SOON, eventually, get};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::MissedTickBehavior};

/// Clients with sequential requests.
pub struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    clients: JoinSet<Vec<Result<String, String>>>,
}

/// The results.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of answers with each text.
    pub answers: BTreeMap<String, usize>,
    /// The number of failures with each cause.
    pub failures: BTreeMap<String, usize>,
}

impl Load {
    /// Starts HTTP/1 clients that GET a URI, each with a pause between its requests.
    pub fn http1(mesh: &Mesh, clients: usize, pause: Duration, uri: &str) -> Self {
        Self::start(mesh.proxy.outbound, clients, pause, uri, false)
    }

    /// Starts HTTP/1 clients of a proxy without a scripted control plane.
    pub fn through(proxy: &Proxy, clients: usize, pause: Duration, uri: &str) -> Self {
        Self::start(proxy.outbound, clients, pause, uri, false)
    }

    /// Starts HTTP/2 clients, each with its own connection.
    pub fn http2(mesh: &Mesh, clients: usize, pause: Duration, uri: &str) -> Self {
        Self::start(mesh.proxy.outbound, clients, pause, uri, true)
    }

    fn start(proxy: SocketAddr, clients: usize, pause: Duration, uri: &str, http2: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let (stop, sent, uri) = (stop.clone(), sent.clone(), uri.to_owned());
            tasks.spawn(async move {
                let mut client = Client::connect(proxy, http2).await;
                let mut results = Vec::new();
                let mut ticks = tokio::time::interval(pause.max(Duration::from_micros(1)));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !stop.load(SeqCst) {
                    ticks.tick().await;
                    let result = tokio::time::timeout(SOON, client.get(&uri)).await;
                    let result = result.unwrap_or_else(|_| Err("no answer".into()));
                    results.push(match result {
                        Ok(reply) if reply.status == 200 => Ok(reply.text().to_owned()),
                        Ok(reply) => Err(format!(
                            "{} {}",
                            reply.status,
                            reply.header("l5d-proxy-error").unwrap_or_default()
                        )),
                        Err(error) => Err(format!("{error:?}")),
                    });
                    sent.fetch_add(1, SeqCst);
                    if !client.is_open() {
                        client = Client::connect(proxy, http2).await;
                    }
                }
                results
            });
        }
        Self {
            stop,
            sent,
            clients: tasks,
        }
    }

    /// The number of responses.
    pub fn sent(&self) -> usize {
        self.sent.load(SeqCst)
    }

    /// Waits for this many more responses.
    #[track_caller]
    pub fn more(&self, count: usize) -> impl Future<Output = ()> {
        let (sent, goal) = (self.sent.clone(), self.sent() + count);
        eventually(2 * SOON, "the load goes on", move || {
            let reached = (sent.load(SeqCst) >= goal).then_some(());
            async move { reached }
        })
    }

    /// Ends the load.
    pub async fn stop(mut self) -> Report {
        self.stop.store(true, SeqCst);
        let mut report = Report::default();
        while let Some(results) = self.clients.join_next().await {
            for result in results.unwrap() {
                let (map, text) = match result {
                    Ok(text) => (&mut report.answers, text),
                    Err(text) => (&mut report.failures, text),
                };
                *map.entry(text).or_default() += 1;
            }
        }
        report
    }
}

impl Report {
    /// Requires some responses and no failure.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.failures.is_empty(), "{self:?}");
        assert!(self.total() > 0, "nothing was sent");
    }

    /// The number of answers.
    pub fn total(&self) -> usize {
        self.answers.values().sum()
    }

    /// The share of the responses with this text.
    pub fn share(&self, text: &str) -> f64 {
        let count = self.answers.get(text).copied().unwrap_or(0);
        count as f64 / self.total() as f64
    }
}

enum Client {
    Http1(crate::Http1),
    Http2(crate::Http2),
}

impl Client {
    async fn connect(proxy: SocketAddr, http2: bool) -> Self {
        match http2 {
            false => Self::Http1(crate::Http1::connect(proxy).await),
            true => Self::Http2(crate::Http2::connect(proxy).await),
        }
    }

    async fn get(&mut self, uri: &str) -> Result<Reply, BoxError> {
        match self {
            Self::Http1(client) => client.send(get(uri)).await,
            Self::Http2(client) => client.send(get(uri)).await,
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Http1(client) => client.is_open(),
            Self::Http2(client) => client.is_open(),
        }
    }
}
