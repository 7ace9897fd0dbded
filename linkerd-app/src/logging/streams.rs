//! Live streams of log events for people, each with its own filter (`/logs.json`).
//!
//! - **Sits** beside the formatter of the log: a stream shows events that the log's own levels leave out.
//! - **Waits for** nothing where an event is logged; an event that finds a stream full is left out of it, and counted.
//! - **Bounds**: [`MAX_STREAMS`], each of [`MAX_EVENTS`] that wait for its reader.
//! - **Costs** nothing while there is no stream: call sites are disabled.

use crate::{
    cut::cut,
    utc::{Fraction, UtcClock},
};
use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};
use tokio::sync::{Notify, mpsc};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    subscriber::Interest,
};
use tracing_subscriber::{
    Layer, Registry,
    filter::{Filtered, ParseError, Targets},
    layer::{Context, Filter, Layered, SubscriberExt},
    registry::LookupSpan,
    reload,
};

/// The registry of a logger with streams.
pub(super) type Streamed =
    Layered<Filtered<StreamsLayer, reload::Layer<AnyStream, Registry>, Registry>, Registry>;

/// Opens streams of log events. Clones share them.
#[derive(Clone, Debug)]
pub struct LogStreams {
    open: OpenStreams,
    filter: reload::Handle<AnyStream, Registry>,
}

/// A stream of log events. It ends when the stream is dropped.
#[derive(Debug)]
pub struct LogStream {
    lines: mpsc::Receiver<Bytes>,
    state: Arc<StreamState>,
    streams: LogStreams,
}

/// Errors of a stream that is not opened.
#[derive(Debug, thiserror::Error)]
pub enum LogStreamError {
    /// The directives are not valid.
    #[error("invalid filter: {0}")]
    Invalid(#[from] ParseError),
}

type OpenStreams = Arc<RwLock<Vec<Arc<StreamState>>>>;

#[derive(Debug)]
struct StreamState {
    filter: Targets,
    lines: mpsc::Sender<Bytes>,
    /// Events left out since the last one that was read.
    dropped: AtomicU64,
    dropped_in_all: AtomicU64,
    /// Ends the stream, as another one needs its place.
    end: Notify,
}

/// Lets events pass that are shown by a stream.
#[derive(Debug)]
pub(super) struct AnyStream(OpenStreams);

/// Gives events to the streams.
#[derive(Debug)]
pub(super) struct StreamsLayer(OpenStreams);

impl LogStreams {
    /// A registry without streams, and the handle that opens them.
    pub(super) fn install() -> (Streamed, Self) {
        let open = OpenStreams::default();
        let (filter, handle) = reload::Layer::new(AnyStream(open.clone()));
        let layer = StreamsLayer(open.clone()).with_filter(filter);
        let streams = Self {
            open,
            filter: handle,
        };
        (Registry::default().with(layer), streams)
    }

    /// Opens a stream of the events that `directives` let pass: `warn,linkerd=debug`. If there are as many as there may be, another one
    /// ends: the one whose reader has missed the most events, or else the oldest. Refusing the newest would let a few forgotten ones
    /// lock out all others.
    pub fn open(&self, directives: &str) -> Result<LogStream, LogStreamError> {
        let filter = directives.trim().parse()?;
        let (sender, lines) = mpsc::channel(MAX_EVENTS);
        let state = Arc::new(StreamState {
            filter,
            lines: sender,
            dropped: AtomicU64::new(0),
            dropped_in_all: AtomicU64::new(0),
            end: Notify::new(),
        });
        {
            let mut open = self.open.write();
            if open.len() >= MAX_STREAMS {
                let most = open.iter().map(|stream| stream.missed()).max();
                let worst = open.iter().position(|stream| Some(stream.missed()) == most);
                open.remove(worst.unwrap_or(0)).end.notify_one();
            }
            open.push(state.clone());
        }
        self.changed();
        Ok(LogStream {
            lines,
            state,
            streams: self.clone(),
        })
    }

    /// The streams in `/state`.
    pub fn inspect(&self) -> Value {
        let open = self.open.read();
        let streams = open.iter().map(|stream| {
            json!({
                "filter": stream.filter.to_string(),
                "waiting_events": MAX_EVENTS - stream.lines.capacity(),
                "max_events": MAX_EVENTS,
                "dropped_events": stream.dropped_in_all.load(Relaxed),
            })
        });
        json!({ "open": streams.collect::<Vec<_>>(), "limit": MAX_STREAMS })
    }

    /// Enables or disables call sites after a change of the streams.
    fn changed(&self) {
        // An error says that the logger is gone.
        let _ = self.filter.modify(|_| {});
    }
}

impl LogStream {
    /// The next event, a line of JSON; `{"dropped_events":N}` goes before it if some were left out. `None`: another stream has taken
    /// the place of this one. Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        let line = tokio::select! {
            biased;
            () = self.state.end.notified() => {
                // A later call must end as well.
                self.state.end.notify_one();
                return None;
            }
            line = self.lines.recv() => line?,
        };
        match self.state.dropped.swap(0, Relaxed) {
            0 => Some(line),
            dropped => {
                let mut lines = json!({ "dropped_events": dropped })
                    .to_string()
                    .into_bytes();
                lines.push(b'\n');
                lines.extend_from_slice(&line);
                Some(lines.into())
            }
        }
    }
}

impl Drop for LogStream {
    fn drop(&mut self) {
        let mut open = self.streams.open.write();
        open.retain(|stream| !Arc::ptr_eq(stream, &self.state));
        drop(open);
        self.streams.changed();
    }
}

impl AnyStream {
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        self.0.read().iter().any(|stream| stream.shows(metadata))
    }
}

impl StreamState {
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        self.filter
            .would_enable(metadata.target(), metadata.level())
    }

    /// The events that its reader has missed.
    fn missed(&self) -> u64 {
        self.dropped_in_all.load(Relaxed)
    }

    fn push(&self, line: &Bytes) {
        if self.lines.try_send(line.clone()).is_err() {
            self.dropped.fetch_add(1, Relaxed);
            self.dropped_in_all.fetch_add(1, Relaxed);
        }
    }
}

impl<S> Filter<S> for AnyStream {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.shows(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.shows(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let open = self.0.read();
        let levels = open.iter().map(|stream| {
            let levels = stream.filter.iter().map(|(_, level)| level);
            levels.chain(stream.filter.default_level()).max()
        });
        Some(levels.flatten().max().unwrap_or(LevelFilter::OFF))
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for StreamsLayer {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let open = self.0.read();
        let mut wanted = open
            .iter()
            .filter(|stream| stream.shows(event.metadata()))
            .peekable();
        if wanted.peek().is_some() {
            let line = line(event, &context);
            wanted.for_each(|stream| stream.push(&line));
        }
    }
}

/// An event as a line of JSON.
fn line<S: Subscriber + for<'s> LookupSpan<'s>>(
    event: &Event<'_>,
    context: &Context<'_, S>,
) -> Bytes {
    let mut time = Vec::new();
    UtcClock::default().push(&mut time, SystemTime::now(), Fraction::Micros);
    let mut fields = Fields(Map::new());
    event.record(&mut fields);
    let scope = context.event_scope(event);
    let spans = scope.map(|scope| {
        scope
            .from_root()
            .map(|span| span.name())
            .collect::<Vec<_>>()
    });
    let metadata = event.metadata();
    let object = json!({
        "timestamp": String::from_utf8_lossy(&time),
        "level": metadata.level().as_str(),
        "target": metadata.target(),
        "fields": fields.0,
        "spans": spans.unwrap_or_default(),
    });
    let mut line = object.to_string().into_bytes();
    line.push(b'\n');
    line.into()
}

/// The fields of an event. Texts are cut: a peer may have made them long.
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&mut self, field: &Field, text: String) {
        let text = cut(text, MAX_TEXT);
        self.0.insert(field.name().to_owned(), text.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

/// The most streams at once. They are for people.
const MAX_STREAMS: usize = 8;

/// The most events that wait for the reader of a stream.
const MAX_EVENTS: usize = 256;

/// The longest text of an event, in bytes.
const MAX_TEXT: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn with_streams(act: impl FnOnce(&LogStreams)) {
        let (registry, streams) = LogStreams::install();
        tracing::subscriber::with_default(registry, || act(&streams));
    }

    fn ready(stream: &mut LogStream) -> Vec<Value> {
        let mut read = Vec::new();
        while let Some(Some(lines)) = futures::FutureExt::now_or_never(stream.next()) {
            let lines = std::str::from_utf8(&lines).unwrap().lines();
            read.extend(lines.map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        read
    }

    #[test]
    fn each_stream_has_the_events_of_its_filter_while_it_is_open() {
        with_streams(|streams| {
            tracing::info!("nobody listens");
            let mut all = streams.open("debug").unwrap();
            let mut warnings = streams.open("warn").unwrap();
            let span = tracing::info_span!("outer");
            span.in_scope(|| tracing::debug!(port = 80, peer = "a\"b", "hello"));
            tracing::warn!("beware");
            let read = ready(&mut all);
            assert_eq!(read.len(), 2, "{read:?}");
            assert_eq!(read[0]["level"], "DEBUG");
            assert_eq!(read[0]["target"], module_path!());
            assert_eq!(read[0]["spans"], json!(["outer"]));
            let fields = json!({ "message": "hello", "port": 80, "peer": "a\"b" });
            assert_eq!(read[0]["fields"], fields);
            let read = ready(&mut warnings);
            assert_eq!(read.len(), 1, "{read:?}");
            drop(all);
            let state = streams.inspect();
            assert_eq!(state["open"].as_array().unwrap().len(), 1);
        });
    }

    #[test]
    fn a_reader_that_is_late_learns_how_much_it_missed() {
        with_streams(|streams| {
            let mut stream = streams.open("info").unwrap();
            for number in 0..MAX_EVENTS + 10 {
                tracing::info!(number);
            }
            assert_eq!(streams.inspect()["open"][0]["dropped_events"], 10);
            let read = ready(&mut stream);
            assert_eq!(read[0], json!({ "dropped_events": 10 }));
            assert_eq!(read.len(), MAX_EVENTS + 1);
        });
    }

    #[test]
    fn long_texts_are_cut_and_streams_are_bounded() {
        with_streams(|streams| {
            let mut stream = streams.open("info").unwrap();
            tracing::info!("{}", "ä".repeat(MAX_TEXT));
            let read = ready(&mut stream);
            let text = read[0]["fields"]["message"].as_str().unwrap();
            assert_eq!(text.len(), MAX_TEXT + '…'.len_utf8());
            let more: Vec<_> = (1..MAX_STREAMS)
                .map(|_| streams.open("info").unwrap())
                .collect();
            // The first has missed nothing, like all others, and is the oldest.
            let newest = streams.open("info").unwrap();
            assert_eq!(stream.next().now_or_never(), Some(None));
            assert_eq!(stream.next().now_or_never(), Some(None), "again");
            assert_eq!(streams.open.read().len(), MAX_STREAMS);
            drop((more, newest));
            assert!(streams.open.read().is_empty());
            assert!(streams.open("a=loud").is_err(), "no such level");
        });
    }
}
