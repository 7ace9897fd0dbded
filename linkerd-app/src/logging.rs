//! Logging: the filter, the format, and changes of both while the proxy runs.
//!
//! A filter sits in front of a formatter, whose lines a thread writes to standard output: with a slow reader lines are
//! lost, but no task waits. Beside it, live streams for people have separate filters. A line below the filter's
//! levels costs one comparison of an atomic at its call site, so the path of a request pays nothing for it.

mod filter;
mod libraries;
mod limit;
mod output;
mod queue;
mod streams;

pub use filter::{LogFilter, LogFilterError};
pub use libraries::LibraryLimit;
pub use limit::LogLimit;
pub use output::{LineOutput, LineSource};
pub use queue::LineQueue;
pub use streams::{LogStream, LogStreamError, LogStreams};

use crate::config::{LogConfig, LogFormat};
use linkerd_proxy_core::metrics;
use queue::log_into;
use std::fmt;
use std::io;
use std::time::Duration;
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, filter::FilterExt, reload};

/// The logger of the process.
#[derive(Clone, Debug)]
pub struct Logger {
    /// Its filter.
    pub filter: LogFilter,
    /// Queue of its lines to standard output.
    pub lines: LineQueue,
    /// Opens live streams of its events.
    pub streams: LogStreams,
    /// Limit of the libraries' lines.
    pub libraries: LibraryLimit,
}

/// The time at the start of a plain line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogClock {
    /// Seconds since the start, as with the incumbent.
    Uptime,
    /// Date and time in UTC, for people.
    Wall,
}

/// Errors at the installation of the logger.
#[derive(Debug, thiserror::Error)]
pub enum LogInstallError {
    /// Another logger has been installed before.
    #[error("Invalid logging configuration: a logger is installed already")]
    Installed(#[source] tracing::subscriber::SetGlobalDefaultError),
    /// The thread that writes the lines does not start.
    #[error("the thread of the log cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// Installs the logger of the process; `None` if logging is off. Invalid directives are reported on standard error and
/// dropped.
pub fn install(log: &LogConfig, clock: LogClock) -> Result<Option<Logger>, LogInstallError> {
    if log.is_off() {
        return Ok(None);
    }
    let lines = LineQueue::start("log", io::stdout(), Duration::ZERO, |lost, batch| {
        log_into(batch, || {
            tracing::warn!(
                lines = lost,
                "Log lines were lost: their reader is too slow"
            );
        });
    })?;
    let libraries = LibraryLimit::default();
    let (subscriber, filter, streams) = subscriber(log, clock, lines.clone(), &libraries);
    tracing::subscriber::set_global_default(subscriber).map_err(LogInstallError::Installed)?;
    Ok(Some(Logger {
        filter,
        lines,
        streams,
        libraries,
    }))
}

impl Logger {
    /// Declares `proxy_log_lines_dropped_total`.
    pub fn register(&self, registry: &metrics::Registry) {
        let lines = self.lines.clone();
        registry.collect(move |out| write_dropped(lines.dropped(), out));
    }

    /// Waits until the last lines are written, a second at most: their reader may be gone.
    pub fn flush(&self) {
        self.lines.flush(FLUSH);
    }
}

/// Writes the log's counters of a scrape.
pub(crate) fn write_dropped(dropped: u64, out: &mut metrics::Exposition<'_>) {
    out.single(
        metrics::MetricKind::Counter,
        "proxy_log_lines_dropped_total",
        "Log lines that were dropped because nobody read them in time",
        Some(dropped),
    );
}

fn subscriber<W>(
    log: &LogConfig,
    clock: LogClock,
    writer: W,
    libraries: &LibraryLimit,
) -> (Box<dyn Subscriber + Send + Sync>, LogFilter, LogStreams)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter::at_start(&log.filter));
    let filter = filter.and(libraries.clone());
    let (registry, streams) = LogStreams::install();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .with_thread_ids(true);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match log.format {
        LogFormat::Plain => match clock {
            LogClock::Uptime => {
                let lines = lines.with_timer(Uptime::starting_now());
                Box::new(registry.with(lines.with_filter(filter)))
            }
            LogClock::Wall => {
                let lines = lines.with_timer(SystemTime);
                Box::new(registry.with(lines.with_filter(filter)))
            }
        },
        LogFormat::Json => {
            let lines = lines.json().with_current_span(false).with_span_list(true);
            Box::new(registry.with(lines.with_filter(filter)))
        }
    };
    (subscriber, LogFilter::new(handle), streams)
}

/// Seconds since the proxy started: `[     0.000697s]`.
struct Uptime {
    start: Instant,
}

/// Lines are also logged where there is no runtime, and a paused clock would date them wrong.
#[expect(clippy::disallowed_types, reason = "the real time since the start")]
type Instant = std::time::Instant;

impl Uptime {
    fn starting_now() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl FormatTime for Uptime {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let uptime = self.start.elapsed();
        write!(
            w,
            "[{:>6}.{:06}s]",
            uptime.as_secs(),
            uptime.subsec_micros()
        )
    }
}

/// Time at the end of the process for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, LogConfig};
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing::level_filters::LevelFilter;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(vars: &[(&str, &str)]) -> LogConfig {
        LogConfig::load(&vars.iter().copied().collect::<Env>())
    }

    /// Captures lines without time and thread, and the handle of the filter.
    fn with_logger(log: &LogConfig, act: impl FnOnce(&Lines, &LogFilter)) {
        with_clock(log, LogClock::Uptime, act);
    }

    fn with_clock(log: &LogConfig, clock: LogClock, act: impl FnOnce(&Lines, &LogFilter)) {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, filter, _) =
            subscriber(log, clock, move || writer.clone(), &LibraryLimit::default());
        tracing::subscriber::with_default(subscriber, || act(&lines, &filter));
    }

    #[test]
    fn plain_lines_have_uptime_level_thread_spans_target_and_fields() {
        with_logger(&log(&[]), |lines, _| {
            let span = tracing::info_span!("identity", id = 7);
            span.in_scope(|| tracing::info!(peer = "a", "hello"));
            let line = lines.take();
            let (time, rest) = line.split_at("[     0.000697s]".len());
            assert!(time.starts_with("[     ") && time.ends_with("s]"), "{line}");
            let (level, rest) = rest.split_once("ThreadId(").unwrap();
            let (thread, rest) = rest.split_once(") ").unwrap();
            assert_eq!(level, "  INFO ");
            assert!(thread.len() >= 2 && thread.parse::<u64>().is_ok(), "{line}");
            assert_eq!(
                rest,
                "identity{id=7}: linkerd_app::logging::tests: hello peer=\"a\"\n"
            );
        });
    }

    #[test]
    fn lines_for_people_have_the_date_and_the_time() {
        with_clock(&log(&[]), LogClock::Wall, |lines, _| {
            tracing::info!("hello");
            let line = lines.take();
            let (time, rest) = line.split_at("2026-11-21T22:40:44.123456Z".len());
            assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
            assert!(rest.starts_with("  INFO ThreadId("), "{line}");
        });
    }

    #[test]
    fn json_lines_are_objects_with_a_list_of_spans() {
        with_logger(
            &log(&[("LINKERD2_PROXY_LOG_FORMAT", " JSON ")]),
            |lines, _| {
                tracing::info_span!("outer").in_scope(|| tracing::warn!(port = 80, "hello"));
                let line = lines.take();
                for part in [
                    "{\"timestamp\":\"",
                    "Z\",\"level\":\"WARN\",\"fields\":{\"message\":\"hello\",\"port\":80},",
                    "\"target\":\"linkerd_app::logging::tests\",\"spans\":[{\"name\":\"outer\"}],\"threadId\":\"ThreadId(",
                ] {
                    assert!(line.contains(part), "{part} in {line}");
                }
                assert!(!line.contains("\"span\":"), "{line}");
            },
        );
    }

    #[test]
    fn the_default_filter_shows_our_infos_and_the_warnings_of_others() {
        with_logger(&log(&[]), |lines, filter| {
            tracing::info!(target: "linkerd_proxy_core::x", "ours");
            tracing::info!(target: "hyper::proto", "theirs");
            tracing::warn!(target: "hyper::proto", "warning");
            tracing::warn!(target: "hickory_proto", "dns");
            tracing::error!(target: "_access_log", "access");
            let text = lines.take();
            assert!(text.contains("ours") && text.contains("warning"), "{text}");
            assert!(
                !text.contains("theirs") && !text.contains("dns") && !text.contains("access"),
                "{text}"
            );
            assert_eq!(
                filter.current().unwrap(),
                "_access_log=off,linkerd=info,hickory=error,warn"
            );
        });
    }

    #[test]
    fn the_filter_can_be_replaced_and_wrong_directives_change_nothing() {
        with_logger(&log(&[("LINKERD2_PROXY_LOG", "error")]), |lines, filter| {
            tracing::debug!("before");
            filter.replace("linkerd=debug\n").unwrap();
            tracing::debug!("after");
            assert_eq!(filter.current().unwrap(), "_access_log=off,linkerd=debug");
            let text = lines.take();
            assert!(!text.contains("before") && text.contains("after"), "{text}");

            assert!(filter.replace("linkerd=loud").is_err());
            assert_eq!(filter.current().unwrap(), "_access_log=off,linkerd=debug");
        });
    }

    #[test]
    fn the_filter_of_the_injector_costs_one_comparison_below_info() {
        let injected = "warn,linkerd=info,hickory=error,[{headers}]=off,[{request}]=off";
        let log = log(&[("LINKERD2_PROXY_LOG", injected)]);
        let (subscriber, filter, _) =
            subscriber(&log, LogClock::Uptime, io::sink, &LibraryLimit::default());
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::INFO));
        filter.replace("linkerd=debug").unwrap();
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::DEBUG));
    }

    #[test]
    fn directives_that_are_wrong_are_dropped() {
        with_logger(
            &log(&[("LINKERD2_PROXY_LOG", "linkerd=info,what=is=this")]),
            |_, filter| {
                assert_eq!(filter.current().unwrap(), "_access_log=off,linkerd=info");
            },
        );
    }

    #[test]
    fn off_installs_nothing() {
        for off in ["off", " OFF "] {
            assert!(
                install(&log(&[("LINKERD2_PROXY_LOG", off)]), LogClock::Uptime)
                    .unwrap()
                    .is_none()
            );
        }
    }
}
