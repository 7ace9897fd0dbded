//! One tap: its limits, its queue and its counts.

use super::{event::TapEvent, matches::TapMatch, rate::RequestRate};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

/// The settings of a tap by its client.
#[derive(Clone, Debug)]
pub struct TapSettings {
    /// The condition on requests.
    pub matches: TapMatch,
    /// The most requests, after which the tap ends; `u64::MAX` for any number.
    pub limit: u64,
    /// The most requests in a second, `u32::MAX` for any number; further ones are skipped.
    pub max_rps: u32,
    /// Whether events have headers.
    pub headers: bool,
    /// The client, for `/state`.
    pub client: String,
}

/// A tap, shared by the control thread and the workers.
#[derive(Debug)]
pub struct Tap {
    /// Its number in this process, from 0.
    pub id: u32,
    /// The settings by its client.
    pub settings: TapSettings,
    /// Whether the values of secret headers are shown.
    pub shows_secrets: bool,
    rate: RequestRate,
    opened: Instant,
    claimed: AtomicU64,
    finished: AtomicU64,
    skipped: AtomicU64,
    sent: AtomicU64,
    dropped: AtomicU64,
    /// Dropped events of all taps.
    dropped_of_all: Arc<AtomicU64>,
    queued_bytes: AtomicUsize,
    events: mpsc::Sender<Box<TapEvent>>,
    is_ended: AtomicBool,
    end: Notify,
}

/// The reader's side of a tap's queue.
#[derive(Debug)]
pub struct EventStream {
    tap: Arc<Tap>,
    events: mpsc::Receiver<Box<TapEvent>>,
}

/// The end of a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapEnd {
    /// All requests that it asked for have ended.
    Limit,
    /// The proxy shuts down.
    Shutdown,
}

/// A request that a tap has taken. Dropping it finishes the request.
#[derive(Debug)]
pub struct TapStream {
    tap: Arc<Tap>,
    number: u64,
}

impl Tap {
    /// A tap that begins now, and the stream of its events.
    pub fn open(
        id: u32,
        settings: TapSettings,
        shows_secrets: bool,
        dropped_of_all: Arc<AtomicU64>,
    ) -> EventStream {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let tap = Arc::new(Self {
            id,
            rate: RequestRate::new(settings.max_rps),
            settings,
            shows_secrets,
            opened: Instant::now(),
            claimed: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            dropped_of_all,
            queued_bytes: AtomicUsize::new(0),
            events: sender,
            is_ended: AtomicBool::new(false),
            end: Notify::new(),
        });
        EventStream { tap, events }
    }

    /// Whether it takes further requests.
    pub fn is_open(&self) -> bool {
        !self.is_ended.load(Ordering::Relaxed)
            && !self.events.is_closed()
            && self.claimed.load(Ordering::Relaxed) < self.settings.limit
    }

    /// Takes a request, within the limits.
    pub fn claim(self: &Arc<Self>) -> Option<TapStream> {
        if !self.is_open() {
            return None;
        }
        if !self.rate.admit(self.opened.elapsed()) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let limit = self.settings.limit;
        let next = |claimed: u64| (claimed < limit).then_some(claimed + 1);
        let claimed = &self.claimed;
        let claimed = claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        claimed.ok().map(|number| TapStream {
            tap: self.clone(),
            number,
        })
    }

    /// The number of dropped events.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The requests that exceeded the rate.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Ends the tap before its limit.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.end.notify_one();
    }

    /// The tap in `/state`.
    pub fn inspect(&self) -> Value {
        let TapSettings {
            matches,
            limit,
            max_rps,
            headers,
            client,
        } = &self.settings;
        let age = self.opened.elapsed();
        let claimed = self.claimed.load(Ordering::Relaxed);
        json!({
            "id": self.id,
            "client": client,
            "match": matches.to_string(),
            "headers": headers,
            "age_ms": age.as_millis() as u64,
            "limit": (*limit != u64::MAX).then_some(limit),
            "max_rps": (*max_rps != u32::MAX).then_some(max_rps),
            "requests": claimed,
            "in_flight": claimed.saturating_sub(self.finished.load(Ordering::Relaxed)),
            "skipped": self.skipped(),
            "queued": self.events.max_capacity() - self.events.capacity(),
            "queued_bytes": self.queued_bytes.load(Ordering::Relaxed),
            "sent": self.sent.load(Ordering::Relaxed),
            "dropped": self.dropped(),
        })
    }

    fn send(&self, event: Box<TapEvent>) {
        let size = event.size();
        let before = self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        if before + size <= MAX_QUEUED_BYTES && self.events.try_send(event).is_ok() {
            return;
        }
        self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.dropped_of_all.fetch_add(1, Ordering::Relaxed);
    }
}

impl EventStream {
    /// The tap.
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// Waits for the next event; the end of the tap after the last one. Cancel safe.
    pub async fn next(&mut self) -> Result<Box<TapEvent>, TapEnd> {
        let event = tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = self.tap.end.notified() => self.events.try_recv().ok(),
        };
        let Some(event) = event else {
            // The permit is gone, and a later call must end as well.
            self.tap.end.notify_one();
            return Err(match self.tap.is_ended.load(Ordering::Relaxed) {
                true => TapEnd::Shutdown,
                false => TapEnd::Limit,
            });
        };
        if self.is_over() {
            self.tap.end.notify_one();
        }
        let tap = &self.tap;
        tap.queued_bytes.fetch_sub(event.size(), Ordering::Relaxed);
        tap.sent.fetch_add(1, Ordering::Relaxed);
        Ok(event)
    }

    /// Whether no further event comes.
    fn is_over(&self) -> bool {
        let tap = &self.tap;
        tap.is_ended.load(Ordering::Relaxed)
            || tap.finished.load(Ordering::Acquire) >= tap.settings.limit
    }
}

impl TapStream {
    /// The tap.
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Sends an event of the request.
    pub fn send(&self, event: impl FnOnce(u64) -> TapEvent) {
        self.tap.send(Box::new(event(self.number)));
    }
}

impl Drop for TapStream {
    fn drop(&mut self) {
        let finished = self.tap.finished.fetch_add(1, Ordering::Release) + 1;
        if finished >= self.tap.settings.limit {
            self.tap.end.notify_one();
        }
    }
}

/// Events that wait for the client of a tap, as many as the incumbent keeps.
pub const MAX_EVENTS: usize = 400;

/// Bytes of the events that wait. With headers, [`MAX_EVENTS`] events could be 40 MB.
pub const MAX_QUEUED_BYTES: usize = 1 << 20;
