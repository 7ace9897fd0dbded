//! All taps of the proxy, and the snapshots of them for the workers.

use super::active::{EventStream, Tap, TapSettings};
use linkerd_proxy_core::metrics::{Exposition, MetricKind, Registry};
use serde_json::{Value, json};
use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};
use tokio::sync::watch;

/// The taps of a proxy. Clones share them.
#[derive(Clone, Debug)]
pub struct TapRegistry(Arc<RegistryState>);

/// The taps that are open.
pub type TapSnapshot = Arc<[Arc<Tap>]>;

#[derive(Debug)]
struct RegistryState {
    taps: watch::Sender<TapSnapshot>,
    next_id: AtomicU32,
    is_ended: AtomicBool,
    dropped: Arc<AtomicU64>,
    shows_secrets: bool,
    /// Connections to the tap server.
    connections: Arc<AtomicUsize>,
}

/// The events of an open tap. Dropping it closes the tap.
#[derive(Debug)]
pub struct OpenTap {
    registry: TapRegistry,
    events: EventStream,
}

/// A connection to the tap server.
pub struct CountedConnection(Arc<AtomicUsize>);

/// A tap that cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapRefused {
    /// The proxy shuts down.
    #[error("the proxy shuts down")]
    Shutdown,
}

impl TapRegistry {
    /// A registry without taps. `shows_secrets`: whether events show the values of secret headers.
    pub fn new(shows_secrets: bool) -> Self {
        Self(Arc::new(RegistryState {
            taps: watch::Sender::new(Arc::new([])),
            next_id: AtomicU32::new(0),
            is_ended: AtomicBool::new(false),
            dropped: Arc::default(),
            shows_secrets,
            connections: Arc::default(),
        }))
    }

    /// Declares `proxy_tap_events_dropped_total`.
    pub fn register(&self, registry: &Registry) {
        let dropped = self.0.dropped.clone();
        registry.collect(move |out| write_dropped(dropped.load(Ordering::Relaxed), out));
    }

    /// Opens a tap. If there are as many as there may be, another one ends: the one whose client has missed the most events, or else
    /// the oldest. Refusing the newest would let a few forgotten ones lock out all others.
    pub fn open(&self, settings: TapSettings) -> Result<OpenTap, TapRefused> {
        let state = &self.0;
        if state.is_ended.load(Ordering::Relaxed) {
            return Err(TapRefused::Shutdown);
        }
        let id = state.next_id.fetch_add(1, Ordering::Relaxed);
        let events = Tap::open(id, settings, state.shows_secrets, state.dropped.clone());
        state.taps.send_modify(|taps| {
            let mut open = taps.to_vec();
            if open.len() >= MAX_TAPS {
                let most = open.iter().map(|tap| tap.dropped()).max();
                let worst = open.iter().position(|tap| Some(tap.dropped()) == most);
                open.remove(worst.unwrap_or(0)).end();
            }
            open.push(events.tap().clone());
            *taps = open.into();
        });
        Ok(OpenTap {
            registry: self.clone(),
            events,
        })
    }

    /// Counts a connection to the tap server, until it is dropped.
    pub fn connected(&self) -> CountedConnection {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        CountedConnection(self.0.connections.clone())
    }

    /// The snapshots of the open taps, for a worker.
    pub fn snapshots(&self) -> watch::Receiver<TapSnapshot> {
        self.0.taps.subscribe()
    }

    /// Ends all taps, and refuses further ones: an endless stream must not hold up a shutdown.
    pub fn end(&self) {
        self.0.is_ended.store(true, Ordering::Relaxed);
        for tap in self.0.taps.borrow().iter() {
            tap.end();
        }
    }

    /// The part of `/state`.
    pub fn inspect(&self) -> Value {
        let taps = self.0.taps.borrow().clone();
        json!({
            "open": taps.iter().map(|tap| tap.inspect()).collect::<Vec<_>>(),
            "limit": MAX_TAPS,
            "dropped": self.0.dropped.load(Ordering::Relaxed),
            "connections": {
                "open": self.0.connections.load(Ordering::Relaxed),
                "limit": MAX_CONNECTIONS,
            },
        })
    }

    fn close(&self, id: u32) {
        self.0
            .taps
            .send_modify(|taps| *taps = taps.iter().filter(|tap| tap.id != id).cloned().collect());
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Deref for OpenTap {
    type Target = EventStream;

    fn deref(&self) -> &EventStream {
        &self.events
    }
}

impl DerefMut for OpenTap {
    fn deref_mut(&mut self) -> &mut EventStream {
        &mut self.events
    }
}

impl Drop for OpenTap {
    fn drop(&mut self) {
        self.registry.close(self.events.tap().id);
    }
}

/// Writes the taps' counters of a scrape.
pub fn write_dropped(dropped: u64, out: &mut Exposition<'_>) {
    out.single(
        MetricKind::Counter,
        "proxy_tap_events_dropped_total",
        "Events of taps that were dropped because their clients did not read them in time",
        Some(dropped),
    );
}

/// One for a person, another for a dashboard; each costs every request a comparison.
pub const MAX_TAPS: usize = 8;

/// Connections to the tap server: its one client needs a few, and those of others are closed after ten seconds.
pub const MAX_CONNECTIONS: usize = 32;
