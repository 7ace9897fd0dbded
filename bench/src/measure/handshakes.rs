//! Full handshakes of mutual TLS with the proxy of the backends.

use super::{Bench, Measured, Metric, START_TIMEOUT};
use crate::{
    error::Result,
    net::{self, PEER},
    openloop,
    proxies::{Setup, Subject},
    started::Proxies,
    tls::TlsClient,
    workload::Workload,
};
use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// CPU time of the proxy for each connection: accept, TLS, a connection to the backend, and a request.
///
/// The clients are the slower side on most machines, so that connections per second say less.
pub fn measure(
    bench: &Bench<'_>,
    subject: &dyn Subject,
    workload: &Workload,
    setup: &Setup<'_>,
) -> Result<Option<Measured>> {
    let mut programs = subject.programs(setup)?;
    if programs.is_empty() {
        return Ok(None);
    }
    programs.truncate(1);
    let to = SocketAddr::new(net::backend(0), PEER.port());
    let header = subject.discovers().then(|| workload.backend_port());
    let tls = TlsClient::new(&bench.control.identities, to, header)?;
    let mut proxy = Proxies::start(&programs, 1, bench.scratch, subject.name())?;
    while let Err(error) = tls.connect(net::client(0)).and_then(|mut it| it.exchange()) {
        if proxy.has_ended() || proxy.started.elapsed() > START_TIMEOUT {
            return Err(proxy.failed(&format!("it serves nothing: {error}")));
        }
        thread::sleep(PROBE);
    }
    let load = |seconds| openloop::handshakes(&tls, THREADS, Duration::from_secs(seconds));
    if bench.warm_up {
        load(1)?;
    }
    let (before, began) = (proxy.nanoseconds(), Instant::now());
    let completed = load(bench.seconds).map_err(|error| proxy.failed(&error.to_string()))?;
    let used = proxy.nanoseconds().saturating_sub(before) as f64;
    let rate = completed.count / began.elapsed().as_secs_f64();
    Ok(Some(Measured::from([
        (Metric::CpuPerRequest, used / 1e3 / completed.count),
        (Metric::Requests, rate),
        (Metric::RssLoad, proxy.rss() as f64 / 1e6),
    ])))
}

const THREADS: usize = 8;
const PROBE: Duration = Duration::from_millis(20);
