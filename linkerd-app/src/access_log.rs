//! The access log: a line for each HTTP request.
//!
//! The layer sits below the one that answers errors, in both directions, and only where the log is on. It keeps the
//! line itself, as far as the request shows it. Stages below add notes to the request's context
//! ([`RequestNotes`]). At the end of the response they are added to the line, and it is given to a queue that never blocks.
//!
//! | file | content |
//! |---|---|
//! | `connection.rs` | the log of a connection's requests |
//! | `record.rs` | the record of an exchange, and the time at which its line is written |
//! | `refused.rs` | lines of requests that are refused before they are complete |
//! | `exchange.rs` | the facts of an exchange |
//! | `head.rs` | the parts of a request that lines show |
//! | `full.rs`, `text.rs`, `incumbent.rs` | the forms of a line |
//! | `line.rs` | a line that is being formatted |
//! | `ways.rs` | routes, backends and endpoints as lines show them |
//! | `escape.rs`, `utc.rs` | values of a line |
//! | `loss.rs` | the line in place of lost lines |
//! | `stage_note.rs` | the notes of routes and backends |
//!
//! [`RequestNotes`]: linkerd_proxy_core::http::RequestNotes

mod connection;
mod escape;
mod exchange;
mod full;
mod head;
mod incumbent;
mod line;
mod loss;
mod record;
mod refused;
mod stage_note;
#[cfg(test)]
mod tests;
mod text;
mod ways;

pub use connection::ConnectionLog;
pub use record::AccessRecord;
pub use stage_note::StageNote;

use crate::{
    config::{AccessLogConfig, AccessLogFormat},
    logging::{LineOutput, Logger},
    utc::UtcClock,
};
use exchange::Arrival;
use line::Line;
use linkerd_proxy_core::metrics::{Exposition, MetricKind, Registry};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};
use std::{
    cell::{RefCell, RefMut},
    fmt, io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use ways::WayTexts;

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
    /// The clock of the lines' dates.
    clock: RefCell<UtcClock>,
    ways: RefCell<WayTexts>,
    /// Memory of earlier lines, for reuse.
    spare: RefCell<Vec<Vec<u8>>>,
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

    /// Opens the file again, which may have been moved away.
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
            clock: RefCell::default(),
            ways: RefCell::default(),
            spare: RefCell::default(),
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

    /// The texts and the memory that the worker keeps of earlier lines, for `/state`.
    pub fn inspect(&self) -> Value {
        json!({
            "ways": self.ways.borrow().inspect(),
            "spare_lines": { "kept": self.spare.borrow().len(), "limit": SPARE },
        })
    }

    fn format(&self) -> AccessLogFormat {
        self.config().format
    }

    /// Whether a successful request is logged.
    fn is_sampled(&self) -> bool {
        let sample = self.config().sample;
        sample >= 1.0 || self.rng.borrow_mut().random::<f64>() < sample
    }

    /// The texts of ways to endpoints.
    fn ways(&self) -> RefMut<'_, WayTexts> {
        self.ways.borrow_mut()
    }

    /// Memory for a line.
    fn memory(&self) -> Vec<u8> {
        let memory = self.spare.borrow_mut().pop();
        memory.unwrap_or_else(|| Vec::with_capacity(LINE))
    }

    /// Begins the line of a request that arrives.
    fn begin(&self, arrival: &Arrival<'_>) -> Line {
        let mut line = Line::new(self.memory());
        let clock = &mut *self.clock.borrow_mut();
        match self.format() {
            AccessLogFormat::Full => full::begin(&mut line, clock, arrival),
            AccessLogFormat::Text => text::begin(&mut line.bytes, clock, arrival),
            AccessLogFormat::Apache => incumbent::begin_apache(&mut line.bytes, clock, arrival),
            AccessLogFormat::Json => incumbent::begin_json(&mut line, clock, arrival),
        }
        line
    }

    /// Writes a line that is formatted but for its end.
    fn write(&self, line: &mut Line) {
        let mut bytes = std::mem::take(&mut line.bytes);
        bytes.push(b'\n');
        self.log.0.output.lines.push(&bytes[line.start..]);
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE && bytes.capacity() <= KEPT_BYTES {
            spare.push(bytes);
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

/// Memory that is kept of a line: longer ones are rare.
const KEPT_BYTES: usize = 4096;

/// The number of lines whose memory is kept.
const SPARE: usize = 16;
