//! The HTTP/1 pools of one direction of a worker: their bounds, and one task that maintains the idle connections.
//!
//! An idle connection keeps hyper and its buffers, 23 KB, until it is parked. Parking waits for half a second, as a
//! connection in use should never be parked. When many pools have idle connections at once, half a second's worth of them
//! is more than 10 MB; then connections are parked if they were not used since the last look, a twentieth of a second ago.

use crate::{http::PoolSettings, limits, task::spawn_local};
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::{Rc, Weak},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};

/// The bounds and the maintenance of the HTTP/1 pools of one direction of a worker. Copies share them.
///
/// - **Bounds**: idle connections of each endpoint, in number and in time. Those of more than
///   [`limits::HTTP1_WARM_POOLS`] pools are parked early.
/// - **Costs** a request nothing: a pool is listed when its first connection becomes idle, and the task looks at listed pools.
#[derive(Clone)]
pub struct Http1Pools(Rc<PoolsState>);

struct PoolsState {
    settings: PoolSettings,
    /// Whether a connection carries the requests of one client to one host.
    are_bound: bool,
    /// Pools that had idle connections at the last look, and pools listed since.
    idle: RefCell<Vec<Weak<dyn MaintainPool>>>,
    /// The number of pools with connections that are not parked.
    warm: Cell<usize>,
    /// Notified when more pools are warm than the limit allows.
    crowded: Notify,
    maintaining: Cell<bool>,
}

/// A pool that the task maintains.
pub(super) trait MaintainPool {
    /// Parks connections that have been idle for `park`, and closes those idle for too long.
    fn maintain(&self, now: Instant, park: Duration) -> Option<IdleLeft>;

    /// The pool's entry in [`Http1Pools`].
    fn entry(&self) -> &PoolEntry;
}

/// The idle connections that remain in a pool.
pub(super) struct IdleLeft {
    /// Whether some of them are not parked.
    pub(super) warm: bool,
    /// The time of the next park or close.
    pub(super) due: Instant,
}

/// A pool's entry among the maintained pools.
pub(super) struct PoolEntry {
    pools: Rc<PoolsState>,
    /// Whether the pool is counted in `warm`.
    warm: Cell<bool>,
    listed: Cell<bool>,
}

impl Http1Pools {
    /// No pools yet, within these bounds; their connections carry all requests.
    pub fn new(settings: PoolSettings) -> Self {
        Self::with(settings, false)
    }

    /// No pools yet, within these bounds; each of their connections carries the requests of one client to one host.
    pub fn bound(settings: PoolSettings) -> Self {
        Self::with(settings, true)
    }

    fn with(settings: PoolSettings, are_bound: bool) -> Self {
        Self(Rc::new(PoolsState {
            settings,
            are_bound,
            idle: RefCell::default(),
            warm: Cell::new(0),
            crowded: Notify::new(),
            maintaining: Cell::new(false),
        }))
    }

    /// An entry for one more pool.
    pub(super) fn entry(&self) -> PoolEntry {
        PoolEntry {
            pools: self.0.clone(),
            warm: Cell::new(false),
            listed: Cell::new(false),
        }
    }

    /// The number of pools with idle connections, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "idle": self.0.idle.borrow().len(),
            "warm": self.0.warm.get(),
            "max_warm": limits::HTTP1_WARM_POOLS,
        })
    }
}

impl fmt::Debug for Http1Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1Pools").finish_non_exhaustive()
    }
}

impl PoolEntry {
    /// Whether each connection carries the requests of one client to one host.
    pub(super) fn are_bound(&self) -> bool {
        self.pools.are_bound
    }

    /// The bounds of the pools.
    pub(super) fn settings(&self) -> &PoolSettings {
        &self.pools.settings
    }

    /// Notes that the pool has an idle connection that is not parked. Called for every request; mostly noted already.
    pub(super) fn has_warm<P: MaintainPool + 'static>(&self, pool: &Rc<P>) {
        if !self.warm.get() {
            let pool = Rc::downgrade(pool);
            self.warmed(pool);
        }
    }

    #[cold]
    fn warmed(&self, pool: Weak<dyn MaintainPool>) {
        let pools = &self.pools;
        self.count_warm(true);
        if pools.is_crowded() {
            pools.crowded.notify_one();
        }
        if !self.listed.replace(true) {
            pools.idle.borrow_mut().push(pool);
        }
        if !pools.maintaining.replace(true) {
            spawn_local(maintain(pools.clone()));
        }
    }

    fn count_warm(&self, warm: bool) {
        let count = &self.pools.warm;
        count.set(count.get() - usize::from(self.warm.replace(warm)) + usize::from(warm));
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.count_warm(false);
    }
}

impl PoolsState {
    fn is_crowded(&self) -> bool {
        self.warm.get() > limits::HTTP1_WARM_POOLS
    }

    /// Maintains all pools that have idle connections. Returns the time at which the next work is due.
    async fn look(&self) -> Option<Instant> {
        let now = Instant::now();
        let park = match self.is_crowded() {
            true => limits::HTTP1_PARK_CROWDED,
            false => limits::HTTP1_PARK,
        };
        let mut due = None;
        // Pools listed meanwhile wait for the next look.
        let pools = self.idle.take();
        for (index, listed) in pools.into_iter().enumerate() {
            if index > 0 && index % LOOKS_AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            let Some(pool) = listed.upgrade() else {
                continue;
            };
            let left = pool.maintain(now, park);
            let entry = pool.entry();
            entry.count_warm(left.as_ref().is_some_and(|left| left.warm));
            entry.listed.set(left.is_some());
            if let Some(left) = left {
                due = Some(due.map_or(left.due, |due: Instant| due.min(left.due)));
                self.idle.borrow_mut().push(listed);
            }
        }
        due
    }
}

/// Maintains the pools until none has an idle connection.
async fn maintain(pools: Rc<PoolsState>) {
    let mut looked = Instant::now();
    // Connections that become idle later may be due before the first that is due now.
    let latest = limits::HTTP1_PARK.min(pools.settings.idle_timeout);
    // Work that is due at short intervals is done together: all pools are looked at.
    let soonest = limits::HTTP1_PARK_CROWDED.min(latest);
    let mut next = looked + latest;
    loop {
        if timeout_at(next, pools.crowded.notified()).await.is_ok() {
            sleep_until(next.min(looked + soonest)).await;
        }
        looked = Instant::now();
        let due = pools.look().await;
        if pools.idle.borrow().is_empty() {
            pools.maintaining.set(false);
            return;
        }
        next = match due {
            Some(due) if !pools.is_crowded() => due.clamp(looked + soonest, looked + latest),
            _ => looked + soonest,
        };
    }
}

/// The number of pools looked at before requests get their turn. Takes at most some 50 us: the time to park a connection of
/// each.
const LOOKS_AT_ONCE: usize = 32;
