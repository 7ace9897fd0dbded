//! All taps of the proxy, and the snapshots of them for the workers.

use super::active::{EventStream, Tap, TapSettings};
use linkerd_proxy_core::metrics::{Exposition, MetricKind, Registry};
use serde_json::{Value, json};
use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

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
    /// Places for connections to the tap server.
    connections: Arc<Semaphore>,
}

/// The events of an open tap. Dropping it closes the tap.
#[derive(Debug)]
pub struct OpenTap {
    registry: TapRegistry,
    events: EventStream,
}

/// A tap that cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapRefused {
    /// There are as many taps as there may be.
    #[error("{MAX_TAPS} taps are open, as many as there may be; close one (/state lists them)")]
    TooMany,
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
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }))
    }

    /// Declares `proxy_tap_events_dropped_total`.
    pub fn register(&self, registry: &Registry) {
        let dropped = self.0.dropped.clone();
        registry.collect(move |out| write_dropped(dropped.load(Ordering::Relaxed), out));
    }

    /// Opens a tap.
    pub fn open(&self, settings: TapSettings) -> Result<OpenTap, TapRefused> {
        let state = &self.0;
        if state.is_ended.load(Ordering::Relaxed) {
            return Err(TapRefused::Shutdown);
        }
        let id = state.next_id.fetch_add(1, Ordering::Relaxed);
        let events = Tap::open(id, settings, state.shows_secrets, state.dropped.clone());
        let added = state.taps.send_if_modified(|taps| {
            if taps.len() >= MAX_TAPS {
                return false;
            }
            *taps = taps.iter().chain([events.tap()]).cloned().collect();
            true
        });
        match added {
            true => Ok(OpenTap {
                registry: self.clone(),
                events,
            }),
            false => Err(TapRefused::TooMany),
        }
    }

    /// A place for a connection to the tap server, until it is dropped; `None` if all are taken.
    pub fn connect(&self) -> Option<OwnedSemaphorePermit> {
        self.0.connections.clone().try_acquire_owned().ok()
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
                "open": MAX_CONNECTIONS - self.0.connections.available_permits(),
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
const MAX_CONNECTIONS: usize = 32;
