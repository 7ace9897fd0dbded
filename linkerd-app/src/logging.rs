//! Logging: which lines are written, in which form, and how that changes while the proxy runs.
//!
//! One global filter sits in front of one formatter that writes to standard output. What the filter's levels rule out
//! costs one comparison of an atomic at its call site, so nothing is paid for it on the path of a request.

use crate::config::{Log, LogFormat};
use std::fmt;
use std::time::Instant;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{Directive, EnvFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, reload};

/// Reads and replaces the filter of a proxy that is running.
#[derive(Clone, Debug)]
pub struct LogFilter {
    handle: reload::Handle<EnvFilter, Registry>,
}

/// Why the filter could not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum LogFilterError {
    /// The directives are not valid.
    #[error(transparent)]
    Invalid(#[from] tracing_subscriber::filter::ParseError),
    /// The logger is gone.
    #[error("the logger is gone")]
    Gone(#[source] reload::Error),
}

/// Another logger has been installed before.
#[derive(Debug, thiserror::Error)]
#[error("Invalid logging configuration: a logger is installed already")]
pub struct InstallError(#[source] tracing::subscriber::SetGlobalDefaultError);

/// Installs the logger of the process, and returns the handle of its filter. With logging off there is neither.
/// Directives that are not valid are told of on standard error and dropped.
pub fn install(log: &Log) -> Result<Option<LogFilter>, InstallError> {
    if log.is_off() {
        return Ok(None);
    }
    let (subscriber, filter) = subscriber(log, std::io::stdout);
    tracing::subscriber::set_global_default(subscriber).map_err(InstallError)?;
    Ok(Some(filter))
}

impl LogFilter {
    /// The directives in effect, the most specific ones first.
    pub fn current(&self) -> Result<String, LogFilterError> {
        self.handle
            .with_current(ToString::to_string)
            .map_err(LogFilterError::Gone)
    }

    /// Replaces the directives, all or none.
    pub fn replace(&self, directives: &str) -> Result<(), LogFilterError> {
        let filter = without_access_log(builder().parse(directives.trim())?);
        self.handle.reload(filter).map_err(LogFilterError::Gone)
    }
}

fn subscriber<W>(log: &Log, writer: W) -> (Box<dyn Subscriber + Send + Sync>, LogFilter)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = without_access_log(builder().parse_lossy(log.filter.trim()));
    let (filter, handle) = reload::Layer::new(filter);
    let registry = Registry::default().with(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .with_thread_ids(true);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match log.format {
        LogFormat::Plain => Box::new(registry.with(lines.with_timer(Uptime::starting_now()))),
        LogFormat::Json => {
            let lines = lines.json().with_current_span(false).with_span_list(true);
            Box::new(registry.with(lines))
        }
    };
    (subscriber, LogFilter { handle })
}

/// Values are compared as they are: patterns chosen at run time could cost any amount of time.
fn builder() -> tracing_subscriber::filter::Builder {
    EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .with_regex(false)
}

/// The target of access log lines, which have a place of their own, never shows here.
fn without_access_log(filter: EnvFilter) -> EnvFilter {
    let off: Directive = "_access_log=off"
        .parse()
        .expect("a constant directive that a test installs");
    filter.add_directive(off)
}

/// Seconds since the proxy started: `[     0.000697s]`.
struct Uptime {
    start: Instant,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Log};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

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

    fn log(vars: &[(&str, &str)]) -> Log {
        Log::load(&vars.iter().copied().collect::<Env>())
    }

    /// What is written, and the handle of the filter, with time and thread left out.
    fn with_logger(log: &Log, act: impl FnOnce(&Lines, &LogFilter)) {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, filter) = subscriber(log, move || writer.clone());
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
        let (subscriber, filter) = subscriber(&log(&[("LINKERD2_PROXY_LOG", injected)]), io::sink);
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
                install(&log(&[("LINKERD2_PROXY_LOG", off)]))
                    .unwrap()
                    .is_none()
            );
        }
    }
}
