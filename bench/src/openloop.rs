//! The harness's own load: at a fixed rate, in bulk, and with a connection for each request.
//!
//! Blocking threads instead of tasks: a runtime's timers are too coarse to send at a given microsecond.

use crate::{
    error::{Error, Result},
    http::Client,
    load::Completed,
    net,
    stats::quantile,
    tls::TlsClient,
};
use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Latencies in microseconds, from the scheduled time of a request.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// Sends at a fixed rate over several connections, each with its own schedule, evenly interleaved.
///
/// A request delayed by an earlier one counts from its scheduled time: a stall shows in all requests that it delays,
/// not only in one (coordinated omission).
pub fn fixed_rate(
    to: SocketAddr,
    rate: u32,
    connections: u32,
    time: Duration,
) -> Result<(Latency, Completed)> {
    let interval = Duration::from_secs(1) * connections / rate;
    let mut clients = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(to, "/")?;
        client.exchange()?;
        clients.push(client);
    }
    let start = Instant::now() + LEAD;
    let threads: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, client)| {
            let first = start + interval * number / connections;
            thread::spawn(move || on_schedule(client, first, interval, start + time))
        })
        .collect();
    let mut all = Vec::new();
    for latencies in threads {
        all.extend(joined(latencies.join())??);
    }
    all.sort_unstable();
    if all.is_empty() {
        return Err(Error::Other("no request was sent".to_owned()));
    }
    let at = |share| quantile(&all, share) as f64 / 1e3;
    let latency = Latency {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
    };
    let completed = Completed {
        count: all.len() as f64,
        seconds: time.as_secs_f64(),
        failed: 0.0,
    };
    Ok((latency, completed))
}

fn on_schedule(
    mut client: Client,
    first: Instant,
    interval: Duration,
    end: Instant,
) -> Result<Vec<u64>> {
    // Without timer slack, sleeps end up to 50 us earlier. Without the permission, all subjects are equally late.
    let _ = fs::write("/proc/thread-self/timerslack_ns", "1");
    let mut latencies = Vec::new();
    let mut due = first;
    while due < end {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        client.exchange()?;
        let latency = due.elapsed().as_nanos();
        latencies.push(u64::try_from(latency).unwrap_or(u64::MAX));
        due += interval;
    }
    Ok(latencies)
}

/// Reads as much as possible over a few connections; counts bytes.
pub fn bulk(to: SocketAddr, connections: usize, time: Duration) -> Result<Completed> {
    closed_loop(connections, time, move |until| {
        let mut client = Client::connect(to, BULK)?.with_buffer(BULK_BUFFER);
        let mut bytes = 0;
        while Instant::now() < until {
            bytes += client.exchange()?;
        }
        Ok(bytes)
    })
}

/// Connects, sends a request, and closes, repeatedly; counts requests.
///
/// Ports of closed connections stay reserved for a minute, and one address runs out of them within seconds: the kernel then
/// spends most of the time on the search for a free one. So each thread of each run has its own address.
pub fn churn(to: SocketAddr, threads: usize, time: Duration) -> Result<Completed> {
    static USED: AtomicUsize = AtomicUsize::new(0);
    closed_loop(threads, time, move |until| {
        let source = net::client(USED.fetch_add(1, Ordering::Relaxed));
        let mut requests = 0;
        while Instant::now() < until {
            Client::connect_from(source, to, "/")?.exchange()?;
            requests += 1;
        }
        Ok(requests)
    })
}

/// Like [`churn`], over TLS with a full handshake for each request; counts requests.
pub fn handshakes(tls: &TlsClient, threads: usize, time: Duration) -> Result<Completed> {
    static USED: AtomicUsize = AtomicUsize::new(0);
    let tls = tls.clone();
    closed_loop(threads, time, move |until| {
        let source = net::client(USED.fetch_add(1, Ordering::Relaxed));
        let mut requests = 0;
        while Instant::now() < until {
            tls.connect(source)?.exchange()?;
            requests += 1;
        }
        Ok(requests)
    })
}

/// Opens connections, and uses each once.
pub fn used_once(to: SocketAddr, connections: usize) -> Result<Vec<Client>> {
    (0..connections)
        .map(|_| {
            let mut client = Client::connect(to, "/")?;
            client.exchange()?;
            Ok(client.idle())
        })
        .collect()
}

fn closed_loop(
    threads: usize,
    time: Duration,
    work: impl Fn(Instant) -> Result<u64> + Send + Clone + 'static,
) -> Result<Completed> {
    let start = Instant::now();
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let work = work.clone();
            thread::spawn(move || work(start + time))
        })
        .collect();
    let mut count = 0;
    for thread in threads {
        count += joined(thread.join())??;
    }
    Ok(Completed {
        count: count as f64,
        seconds: start.elapsed().as_secs_f64(),
        failed: 0.0,
    })
}

/// The result of a load thread.
pub fn joined<T>(result: thread::Result<T>) -> Result<T> {
    result.map_err(|_| Error::Other("a thread of the load panicked".to_owned()))
}

/// Time for all threads to start.
const LEAD: Duration = Duration::from_millis(50);
/// A large response: few requests, so that only the bytes count.
const BULK: &str = "/bytes/67108864";
const BULK_BUFFER: usize = 256 * 1024;
