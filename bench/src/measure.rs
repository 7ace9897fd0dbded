//! One measurement: starts a proxy, puts it under load, and ends it.

mod handshakes;
mod scale;

use crate::{
    control::Control,
    error::{Error, Result},
    http::Client,
    load::{Completed, h2load, h2load_streams, requests_h2, wrk},
    net, openloop,
    proxies::{DIRECT, Setup, Subject},
    started::Proxies,
    workload::{Protocol, Traffic, Workload},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A measured quantity. The order is that of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// CPU time of the proxy for each request, in microseconds.
    CpuPerRequest,
    /// CPU time of the proxy for each message of a stream, in microseconds.
    CpuPerMessage,
    /// CPU time of the proxy for each gigabyte, in milliseconds.
    CpuPerGigabyte,
    /// Requests each second.
    Requests,
    /// Messages each second.
    Messages,
    /// Megabytes each second.
    Megabytes,
    /// Median latency, in microseconds.
    P50,
    /// 99th percentile of latency, in microseconds.
    P99,
    /// 99.9th percentile of latency, in microseconds.
    P999,
    /// The longest latency, in microseconds: a stall.
    Max,
    /// From exec to the first byte through the proxy, in milliseconds.
    FirstByte,
    /// Memory after the start, in megabytes.
    RssStart,
    /// The most memory under load, in megabytes.
    RssLoad,
    /// Memory for each connection that was used and is kept, in kilobytes.
    RssPerConnection,
    /// Memory after removed endpoints were released, in megabytes.
    RssAfter,
    /// Duration of a scrape of the metrics, in milliseconds.
    Scrape,
    /// The size of a scrape, in megabytes.
    ScrapeSize,
}

impl Metric {
    /// The first column.
    pub const FIRST: Self = Self::CpuPerRequest;
    /// The last column.
    pub const LAST: Self = Self::ScrapeSize;

    /// The heading of the column.
    pub fn title(self) -> &'static str {
        match self {
            Self::CpuPerRequest => "CPU us/request",
            Self::CpuPerMessage => "CPU us/message",
            Self::CpuPerGigabyte => "CPU ms/GB",
            Self::Requests => "requests/s",
            Self::Messages => "messages/s",
            Self::Megabytes => "MB/s",
            Self::P50 => "p50 us",
            Self::P99 => "p99 us",
            Self::P999 => "p99.9 us",
            Self::Max => "max us",
            Self::FirstByte => "first byte ms",
            Self::RssStart => "RSS start MB",
            Self::RssLoad => "RSS load MB",
            Self::RssPerConnection => "RSS KB/connection",
            Self::RssAfter => "RSS after MB",
            Self::Scrape => "scrape ms",
            Self::ScrapeSize => "scrape MB",
        }
    }

    /// Whether the metric is a latency, from which the latency without a proxy is subtracted.
    pub fn is_latency(self) -> bool {
        matches!(self, Self::P50 | Self::P99 | Self::P999 | Self::Max)
    }
}

/// The results of one measurement.
pub type Measured = BTreeMap<Metric, f64>;

/// Common parts of all measurements.
pub struct Bench<'a> {
    /// The control plane, which serves endpoints to sidecars.
    pub control: &'a Control,
    /// A directory that any user can write to.
    pub scratch: &'a Path,
    /// Duration of the load, in seconds.
    pub seconds: u64,
    /// Whether connections and caches are warmed up before.
    pub warm_up: bool,
}

impl Bench<'_> {
    /// Measures a subject; `None` if it does not support the workload.
    pub fn measure(&self, subject: &dyn Subject, workload: &Workload) -> Result<Option<Measured>> {
        self.control.describe(workload)?;
        let setup = Setup::new(workload, workload.workers, self.scratch, self.control);
        let is_direct = subject.name() == DIRECT;
        if workload.needs_discovery() && !subject.discovers() && !is_direct {
            return Ok(None);
        }
        if let Traffic::Handshakes = workload.traffic {
            return handshakes::measure(self, subject, workload, &setup);
        }
        let programs = subject.programs(&setup)?;
        if programs.is_empty() && !is_direct {
            return Ok(None);
        }
        let target = workload.target(is_direct);
        let mut measured = Measured::new();
        let mut running = None;
        if !programs.is_empty() {
            let name = subject.name();
            let mut proxy = Proxies::start(&programs, workload.workers, self.scratch, name)?;
            let first_byte = self.first_byte(workload, target, &mut proxy)?;
            if workload.protocol() != Protocol::Http2 {
                measured.insert(Metric::FirstByte, first_byte.as_secs_f64() * 1e3);
            }
            measured.insert(Metric::RssStart, proxy.rss() as f64 / 1e6);
            running = Some(proxy);
        }
        let loaded = self.load(workload, target, running.as_ref(), &mut measured);
        match (loaded, running) {
            (Ok(()), _) => Ok(Some(measured)),
            (Err(error), Some(proxy)) => Err(proxy.failed(&error.to_string())),
            (Err(error), None) => Err(error),
        }
    }

    /// Time from the start of a proxy to its first response.
    fn first_byte(
        &self,
        workload: &Workload,
        target: SocketAddr,
        proxy: &mut Proxies,
    ) -> Result<Duration> {
        let grpc = matches!(workload.traffic, Traffic::Grpc | Traffic::GrpcStreams);
        let deadline = proxy.started + START_TIMEOUT;
        loop {
            let probed = match workload.protocol() {
                Protocol::Http2 => requests_h2(target, grpc, 4, self.scratch).map(drop),
                Protocol::Http1 | Protocol::Opaque => {
                    Client::connect(target, "/").and_then(|mut client| client.exchange().map(drop))
                }
            };
            let error = match probed {
                Ok(()) => return Ok(proxy.started.elapsed()),
                Err(error) => error,
            };
            if proxy.has_ended() {
                return Err(proxy.failed("it ended"));
            }
            if Instant::now() > deadline {
                return Err(proxy.failed(&format!("it serves nothing: {error}")));
            }
            thread::sleep(PROBE);
        }
    }

    fn load(
        &self,
        workload: &Workload,
        target: SocketAddr,
        proxy: Option<&Proxies>,
        measured: &mut Measured,
    ) -> Result<()> {
        match workload.traffic {
            Traffic::Idle | Traffic::IdleOpaque => {
                return idle(target, IDLE, proxy, measured).map(drop);
            }
            Traffic::Destinations => return destinations(workload, proxy, measured),
            Traffic::Growth => {
                return scale::growth(self.control, workload, target, proxy, measured);
            }
            Traffic::Connections(count) => {
                return scale::connections(target, count, self.seconds, proxy, measured);
            }
            _ => {}
        }
        if self.warm_up {
            self.traffic(workload, target, 1, &mut Measured::new())?;
        }
        let before = proxy.map_or(0, |proxy| proxy.nanoseconds());
        let (completed, rss) = watch_rss(proxy, || {
            self.traffic(workload, target, self.seconds, measured)
        });
        let completed = completed?;
        let (rate, each) = match workload.traffic {
            Traffic::Bulk(_) => (Metric::Megabytes, Metric::CpuPerGigabyte),
            Traffic::GrpcStreams => (Metric::Messages, Metric::CpuPerMessage),
            _ => (Metric::Requests, Metric::CpuPerRequest),
        };
        if let Some(proxy) = proxy {
            let used = proxy.nanoseconds().saturating_sub(before) as f64;
            let used = match workload.traffic {
                Traffic::Bulk(_) => used / 1e6 / (completed.count / 1e9),
                _ => used / 1e3 / completed.count,
            };
            measured.insert(each, used);
            measured.insert(Metric::RssLoad, rss as f64 / 1e6);
        }
        let scale = match workload.traffic {
            Traffic::Bulk(_) => 1e6,
            _ => 1.0,
        };
        measured.insert(rate, completed.count / completed.seconds / scale);
        Ok(())
    }

    fn traffic(
        &self,
        workload: &Workload,
        to: SocketAddr,
        seconds: u64,
        measured: &mut Measured,
    ) -> Result<Completed> {
        let time = Duration::from_secs(seconds);
        match workload.traffic {
            Traffic::Http1(path, body) => wrk(to, path, body, CONNECTIONS, seconds, self.scratch),
            Traffic::Http2 => h2load(to, false, seconds, self.scratch),
            Traffic::Grpc => h2load(to, true, seconds, self.scratch),
            Traffic::GrpcStreams => h2load_streams(to, seconds, self.scratch),
            Traffic::Bulk(connections) => openloop::bulk(to, connections, time),
            Traffic::Churn => openloop::churn(to, 8, time),
            Traffic::FixedRate => {
                let (latency, completed) =
                    openloop::fixed_rate(to, RATE, CONNECTIONS as u32, time)?;
                measured.insert(Metric::P50, latency.p50);
                measured.insert(Metric::P99, latency.p99);
                measured.insert(Metric::P999, latency.p999);
                Ok(completed)
            }
            Traffic::Idle
            | Traffic::IdleOpaque
            | Traffic::Handshakes
            | Traffic::Destinations
            | Traffic::Growth
            | Traffic::Connections(_) => Err(Error::Other("this is no lasting load".to_owned())),
        }
    }
}

/// The cores of a proxy: the first ones.
pub fn proxy_cores(workers: usize) -> String {
    format!("0-{}", workers.max(1) - 1)
}

/// Memory for each connection, after a first one that allocates all shared parts.
fn idle(
    target: SocketAddr,
    count: usize,
    proxy: Option<&Proxies>,
    measured: &mut Measured,
) -> Result<Vec<Client>> {
    let Some(proxy) = proxy else {
        return Ok(Vec::new());
    };
    let mut kept = openloop::used_once(target, 10)?;
    let before = proxy.rss();
    kept.extend(openloop::used_once(target, count)?);
    thread::sleep(SETTLE);
    let after = proxy.rss();
    let grown = after.saturating_sub(before) as f64;
    measured.insert(Metric::RssPerConnection, grown / count as f64 / 1e3);
    Ok(kept)
}

/// Memory after each of many services was discovered and used.
fn destinations(
    workload: &Workload,
    proxy: Option<&Proxies>,
    measured: &mut Measured,
) -> Result<()> {
    let Some(proxy) = proxy else {
        return Ok(());
    };
    for service in 0..workload.services {
        let addr = SocketAddr::new(net::service(service), 80);
        openloop::used_once(addr, 1)?;
    }
    let used = proxy.rss() as f64 / 1e6;
    measured.insert(Metric::RssLoad, used);
    scale::scrape(measured)?;
    thread::sleep(SETTLE);
    measured.insert(Metric::RssAfter, proxy.rss() as f64 / 1e6);
    Ok(())
}

/// Runs `work`, and returns the most memory of the proxy meanwhile.
fn watch_rss<T>(proxy: Option<&Proxies>, work: impl FnOnce() -> T) -> (T, u64) {
    let Some(proxy) = proxy else {
        return (work(), 0);
    };
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(proxy.rss(), Ordering::Relaxed);
                thread::sleep(RSS_INTERVAL);
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, most.load(Ordering::Relaxed))
    })
}

/// Connections of HTTP/1 workloads.
const CONNECTIONS: usize = 32;
/// Requests each second at a fixed rate: a fraction of the slowest proxy's maximum.
const RATE: u32 = 4000;
/// Number of idle connections. RSS grows in pages, so that a few would show nothing.
const IDLE: usize = 2000;
/// Idle time: memory that a proxy frees after a while is not counted.
const SETTLE: Duration = Duration::from_secs(20);
/// Time limit for a proxy's start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of probes, which is also the error of the time to the first byte.
const PROBE: Duration = Duration::from_micros(200);
/// Interval of memory samples: short enough to see the maximum, long enough to cost little.
const RSS_INTERVAL: Duration = Duration::from_millis(50);
