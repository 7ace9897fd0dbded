//! Behaviour with ten times as many endpoints or connections.

use super::{Measured, Metric, idle, watch_rss};
use crate::{
    control::{Control, mesh_of},
    error::{Error, Result},
    http,
    load::Completed,
    net::ADMIN,
    openloop::{self, Latency},
    started::Proxies,
    workload::Workload,
};
use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// Requests at a fixed rate while endpoints are added, replaced and removed: the longest latency, and whether memory is
/// freed.
///
/// Values without a proxy are subtracted: the control plane prepares its messages on the cores of the load, though only
/// while neither load nor backend need them.
pub fn growth(
    control: &Control,
    workload: &Workload,
    target: SocketAddr,
    proxy: Option<&Proxies>,
    measured: &mut Measured,
) -> Result<()> {
    let meshes = workload.later().map(|set| mesh_of(workload, &set));
    let [come, replaced, left] = meshes;
    let (come, replaced, left) = (come?, replaced?, left?);
    let load = || openloop::fixed_rate(target, RATE, CONNECTIONS, PHASE * 4);
    let change = |measured: &mut Measured| -> Result<()> {
        for mesh in [&come, &replaced] {
            thread::sleep(PHASE);
            control.apply(mesh);
        }
        thread::sleep(PHASE);
        if proxy.is_some() {
            scrape(measured)?;
        }
        control.apply(&left);
        Ok(())
    };
    let (outcome, rss) = watch_rss(proxy, || {
        thread::scope(|scope| {
            let load = scope.spawn(load);
            let changed = change(measured);
            let latency = openloop::joined(load.join())?;
            changed.and(latency)
        })
    });
    latencies(outcome?, measured);
    if let Some(proxy) = proxy {
        measured.insert(Metric::RssLoad, rss as f64 / 1e6);
        thread::sleep(SETTLE);
        measured.insert(Metric::RssAfter, proxy.rss() as f64 / 1e6);
    }
    Ok(())
}

/// Requests at a fixed rate while many connections are idle.
pub fn connections(
    target: SocketAddr,
    count: usize,
    seconds: u64,
    proxy: Option<&Proxies>,
    measured: &mut Measured,
) -> Result<()> {
    let kept = idle(target, count, proxy, measured)?;
    let load = || openloop::fixed_rate(target, RATE, CONNECTIONS, Duration::from_secs(seconds));
    let before = proxy.map_or(0, |proxy| proxy.nanoseconds());
    let (outcome, rss) = watch_rss(proxy, load);
    let (latency, completed) = outcome?;
    if let Some(proxy) = proxy {
        let used = proxy.nanoseconds().saturating_sub(before) as f64;
        measured.insert(Metric::CpuPerRequest, used / 1e3 / completed.count);
        measured.insert(Metric::RssLoad, rss as f64 / 1e6);
        drop(kept);
        thread::sleep(SETTLE);
        measured.insert(Metric::RssAfter, proxy.rss() as f64 / 1e6);
    }
    latencies((latency, completed), measured);
    Ok(())
}

/// Reads a sidecar's metrics.
pub fn scrape(measured: &mut Measured) -> Result<()> {
    let start = Instant::now();
    let document = http::document(ADMIN, "/metrics")?;
    if !document.ends_with(b"\n") {
        let text = String::from_utf8_lossy(&document);
        return Err(Error::unexpected("a scrape", &text));
    }
    measured.insert(Metric::Scrape, start.elapsed().as_secs_f64() * 1e3);
    measured.insert(Metric::ScrapeSize, document.len() as f64 / 1e6);
    Ok(())
}

fn latencies((latency, _): (Latency, Completed), measured: &mut Measured) {
    measured.insert(Metric::P50, latency.p50);
    measured.insert(Metric::P99, latency.p99);
    measured.insert(Metric::Max, latency.max);
}

/// Requests each second: a proxy with little load shows stalls.
const RATE: u32 = 1000;
const CONNECTIONS: u32 = 16;
/// Time between two changes of the endpoints.
const PHASE: Duration = Duration::from_secs(1);
/// Time until freed memory is returned; allocators keep it for about ten seconds.
const SETTLE: Duration = Duration::from_secs(15);
