//! The access log: a line for each HTTP request.
//!
//! The layer sits below the one that answers errors, in both directions, and only where the log is on. It keeps what a line
//! needs of a request; stages below add notes to the request's context ([`RequestNotes`]). At the end of the response the line
//! is formatted into a buffer of the worker, and given to a queue that never blocks.
//!
//! | file | what it has |
//! |---|---|
//! | `connection.rs` | the log of a connection's requests |
//! | `record.rs` | the moments at which something is known, and the one at which the line is written |
//! | `exchange.rs` | the facts of an exchange |
//! | `head.rs` | the parts of a request that lines show |
//! | `full.rs`, `text.rs`, `incumbent.rs` | the forms of a line |
//! | `escape.rs`, `utc.rs` | values of a line |
//! | `loss.rs` | the line in the place of lost ones |
//! | `stage_note.rs` | the notes of routes and backends |
//!
//! [`RequestNotes`]: linkerd_proxy_core::http::RequestNotes

mod connection;
mod escape;
mod exchange;
mod full;
mod head;
mod incumbent;
mod loss;
mod record;
mod stage_note;
#[cfg(test)]
mod tests;
mod text;

pub use connection::ConnectionLog;
pub use record::AccessRecord;
pub use stage_note::StageNote;

use crate::{
    config::{AccessLogConfig, AccessLogFormat},
    logging::{LineOutput, Logger},
    utc::UtcClock,
};
use linkerd_proxy_core::metrics::{Exposition, MetricKind, Registry};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};
use std::{cell::RefCell, fmt, io, rc::Rc, sync::Arc, time::Duration};

/// The access log of a proxy. Clones share it.
#[derive(Clone, Debug)]
pub struct AccessLog(Arc<AccessLogState>);

#[derive(Debug)]
struct AccessLogState {
    config: AccessLogConfig,
    output: LineOutput,
}

/// A worker's side of the access log.
pub struct AccessLogWriter {
    log: AccessLog,
    /// The line that is being formatted, and the clock of its date.
    buffer: RefCell<(Vec<u8>, UtcClock)>,
    rng: RefCell<SmallRng>,
}

impl AccessLog {
    /// Opens the output. On standard output the lines share the queue of `log`, if there is one: two writers would cut each
    /// other's lines.
    pub fn start(config: &AccessLogConfig, log: Option<&Logger>) -> io::Result<Self> {
        let source = loss::source(config.format);
        let output = LineOutput::open(&config.output, source, log.map(|log| &log.lines))?;
        Ok(Self(Arc::new(AccessLogState {
            config: config.clone(),
            output,
        })))
    }

    /// Declares `proxy_access_log_lines_dropped_total`.
    pub fn register(&self, registry: &Registry) {
        let lines = self.0.output.lines.clone();
        registry.collect(move |out| write_dropped(lines.dropped(), out));
    }

    /// Opens a file again, which may have been moved away.
    pub fn reopen(&self) {
        self.0.output.reopen();
    }

    /// Waits until the last lines are written, a second at most: their reader may be gone.
    pub fn flush(&self) {
        self.0.output.lines.flush(FLUSH);
    }

    /// The part of `/state`.
    pub fn inspect(&self) -> Value {
        let AccessLogConfig { format, sample, .. } = &self.0.config;
        json!({
            "format": format.name(),
            "output": self.0.output.to_string(),
            "sample": sample,
            "queue": self.0.output.lines.inspect(),
        })
    }

    /// The side of one worker.
    pub fn writer(&self) -> Rc<AccessLogWriter> {
        Rc::new(AccessLogWriter {
            log: self.clone(),
            buffer: RefCell::default(),
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
        })
    }
}

/// Writes the access log's counters of a scrape.
pub(crate) fn write_dropped(dropped: u64, out: &mut Exposition<'_>) {
    out.single(
        MetricKind::Counter,
        "proxy_access_log_lines_dropped_total",
        "Lines of the access log that were dropped because nobody read them in time",
        Some(dropped),
    );
}

impl AccessLogWriter {
    fn config(&self) -> &AccessLogConfig {
        &self.log.0.config
    }

    fn format(&self) -> AccessLogFormat {
        self.config().format
    }

    /// Whether a successful request is logged.
    fn is_sampled(&self) -> bool {
        let sample = self.config().sample;
        sample >= 1.0 || self.rng.borrow_mut().random::<f64>() < sample
    }

    /// Writes a line that `format` adds, without its end.
    fn write(&self, format: impl FnOnce(&mut Vec<u8>, &mut UtcClock)) {
        let (line, clock) = &mut *self.buffer.borrow_mut();
        line.reserve(LINE);
        format(line, clock);
        line.push(b'\n');
        self.log.0.output.lines.push(line);
        line.clear();
        if line.capacity() > KEPT_BYTES {
            line.shrink_to(KEPT_BYTES);
        }
    }
}

impl fmt::Debug for AccessLogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.log.fmt(f)
    }
}

/// Time at the end of the process for the last lines.
const FLUSH: Duration = Duration::from_secs(1);

/// A line is rarely longer.
const LINE: usize = 1024;

/// Capacity that a buffer keeps: longer lines are rare.
const KEPT_BYTES: usize = 4096;
