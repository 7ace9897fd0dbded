//! Metrics of the process itself: its build, its resource usage, and the load of its runtimes.

use linkerd_proxy_core::{
    metrics::{Exposition, Labels, MetricKind, Registry},
    tls,
};
use parking_lot::Mutex;
use std::{
    fmt::Display,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::runtime::{Handle, RuntimeMetrics};

mod descriptors;
mod state;
mod usage;

pub use descriptors::reserve as reserve_descriptors;
pub use state::inspect;
use usage::Usage;

/// Build information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    /// `dist`, `release` or `debug`.
    pub profile: &'static str,
    /// The version, without a leading `v`.
    pub version: &'static str,
    /// The revision of the source.
    pub git_sha: &'static str,
    /// The builder.
    pub vendor: &'static str,
    /// The date of the build.
    pub date: &'static str,
}

/// This program.
pub const BUILD: BuildInfo = BuildInfo {
    profile: env!("LINKERD_BUILD_PROFILE"),
    version: env!("LINKERD_BUILD_VERSION"),
    git_sha: env!("LINKERD_BUILD_GIT_SHA"),
    vendor: env!("LINKERD_BUILD_VENDOR"),
    date: env!("LINKERD_BUILD_DATE"),
};

/// `--version`: version, revision and profile.
pub const VERSION: &str = concat!(
    env!("LINKERD_BUILD_VERSION"),
    " (",
    env!("LINKERD_BUILD_GIT_SHA"),
    ", ",
    env!("LINKERD_BUILD_PROFILE"),
    ")"
);

/// The first line of the log: `<profile> <version> (<sha>) by <vendor> on <date>`.
pub fn banner() -> String {
    let BuildInfo {
        profile,
        version,
        git_sha,
        vendor,
        date,
    } = BUILD;
    format!("{profile} {version} ({git_sha}) by {vendor} on {date}")
}

/// Declares `proxy_build_info`, `rustls_info` and the `process_*` families.
pub fn register(registry: &Registry) {
    registry.collect(|out| {
        write_build(&BUILD, out);
        write_tls(out);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        write_usage(&Usage::of_self(), now.unwrap_or_default(), out);
    });
}

/// Declares the `tokio_rt_*` families, summed over the added runtimes.
pub fn runtimes(registry: &Registry) -> Runtimes {
    let runtimes = Runtimes::default();
    let all = runtimes.clone();
    registry.collect(move |out| all.write(out));
    runtimes
}

/// The runtimes of the process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Runtimes(Arc<Mutex<Vec<RuntimeMetrics>>>);

impl Runtimes {
    /// Adds a runtime. There is one for each worker and one or two more, for as long as the process runs.
    pub fn add(&self, runtime: Handle) {
        self.0.lock().push(runtime.metrics());
    }

    fn write(&self, out: &mut Exposition<'_>) {
        let runtimes = self.0.lock();
        let sum = |figure: fn(&RuntimeMetrics) -> u64| runtimes.iter().map(figure).sum::<u64>();
        let busy: Duration = runtimes
            .iter()
            .flat_map(|rt| (0..rt.num_workers()).map(|n| rt.worker_total_busy_duration(n)))
            .sum();
        out.single(
            MetricKind::Gauge,
            "tokio_rt_workers",
            "Threads that run tasks",
            Some(sum(|rt| rt.num_workers() as u64)),
        );
        out.single(
            MetricKind::Counter,
            "tokio_rt_park_total",
            "How often threads had nothing to do and waited",
            Some(sum(|rt| {
                let workers = 0..rt.num_workers();
                workers.map(|n| rt.worker_park_count(n)).sum()
            })),
        );
        out.single(
            MetricKind::Counter,
            "tokio_rt_busy_seconds_total",
            "Time that threads spent with tasks",
            Some(Seconds(busy.as_secs_f64())),
        );
        out.single(
            MetricKind::Gauge,
            "tokio_rt_injection_queue_depth",
            "Tasks that were woken from other threads and wait to run",
            Some(sum(|rt| rt.global_queue_depth() as u64)),
        );
        out.single(
            MetricKind::Gauge,
            "tokio_rt_alive_tasks",
            "Tasks that have not ended",
            Some(sum(|rt| rt.num_alive_tasks() as u64)),
        );
    }
}

fn write_build(build: &BuildInfo, out: &mut Exposition<'_>) {
    let labels = Labels::new()
        .with("date", build.date)
        .with("git_sha", build.git_sha)
        .with("profile", build.profile)
        .with("vendor", build.vendor)
        .with("version", build.version);
    let name = "proxy_build_info";
    out.head(MetricKind::Gauge, name, "What this proxy was built from.");
    out.sample(name, &labels, 1);
}

/// The start of the process, in seconds since the Unix epoch, if it is known.
pub fn start_seconds() -> Option<i64> {
    let start = Usage::of_self().start_time?;
    i64::try_from(start.as_secs()).ok()
}

/// The algorithms of TLS. Lists end with a comma, as dashboards know them from the incumbent.
fn write_tls(out: &mut Exposition<'_>) {
    let list = |names: Vec<String>| {
        names
            .iter()
            .map(|name| format!("{name},"))
            .collect::<String>()
    };
    let labels = Labels::new()
        .with("tls_suites", list(tls::cipher_suites()))
        .with("tls_kx_groups", list(tls::key_exchange_groups()))
        .with("tls_rand", "AwsLcRs")
        .with("tls_key_provider", "AwsLcRs")
        .with("tls_fips", "false");
    let name = "rustls_info";
    out.head(MetricKind::Gauge, name, "Algorithms of TLS.");
    out.sample(name, &labels, 1);
}

fn write_usage(usage: &Usage, now: Duration, out: &mut Exposition<'_>) {
    use MetricKind::{Counter, Gauge};
    let started = usage.start_time;
    let uptime = started.map(|start| now.saturating_sub(start));
    let whole = |time: Duration| Seconds(time.as_secs_f64());
    let (time, count) = (
        [
            (
                Gauge,
                "process_start_time_seconds",
                "Time that the process started, since the Unix epoch",
                started,
            ),
            (
                Gauge,
                "process_clock_time_seconds",
                "Time of the system, since the Unix epoch",
                Some(now),
            ),
            (
                Counter,
                "process_uptime_seconds_total",
                "Time since the process started",
                uptime,
            ),
            (
                Counter,
                "process_cpu_seconds_total",
                "CPU time of user and system that the process has used",
                usage.cpu,
            ),
        ],
        [
            (
                Gauge,
                "process_virtual_memory_bytes",
                "Virtual memory of the process",
                usage.virtual_memory,
            ),
            (
                Gauge,
                "process_resident_memory_bytes",
                "Resident memory of the process",
                usage.resident_memory,
            ),
            (
                Gauge,
                "process_open_fds",
                "File descriptors that are open",
                usage.open_fds,
            ),
            (
                Gauge,
                "process_max_fds",
                "File descriptors that may be open, unlimited if not given",
                usage.max_fds,
            ),
            (
                Gauge,
                "process_threads",
                "Threads of the process",
                usage.threads,
            ),
            (
                Counter,
                "process_network_receive_bytes_total",
                "Bytes that the network namespace of the process has received",
                usage.received,
            ),
            (
                Counter,
                "process_network_transmit_bytes_total",
                "Bytes that the network namespace of the process has sent",
                usage.sent,
            ),
        ],
    );
    for (kind, name, help, value) in time {
        out.single(kind, name, help, value.map(whole));
    }
    for (kind, name, help, value) in count {
        out.single(kind, name, help, value);
    }
}

/// A number with a decimal point, which OpenMetrics requires of fractions.
struct Seconds(f64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests;
