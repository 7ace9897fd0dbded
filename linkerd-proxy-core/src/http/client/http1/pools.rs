//! The HTTP/1 pools of one direction of a worker: their bounds, and one task that looks after all that is idle
//! in them.
//!
//! An idle connection keeps hyper and its buffers, 23 KB, until it is parked. That waits for half a second, as a
//! connection in use should never be parked. When many pools have idle connections at once, half a second's worth of them
//! is more than 10 MB, so that then those are parked that nobody used since the last look, a twentieth of a second ago.

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

/// The bounds and the upkeep of the HTTP/1 pools of one direction of a worker. Copies share them.
///
/// - **Bounds**: idle connections of each endpoint, in number and in time. Those of more than
///   [`limits::HTTP1_WARM_POOLS`] pools are parked early.
/// - **Costs** a request nothing: a pool is told of when its first connection becomes idle, and then it is looked at.
#[derive(Clone)]
pub struct Http1Pools(Rc<PoolsState>);

struct PoolsState {
    settings: PoolSettings,
    /// Whether a connection carries the requests of one client to one host.
    are_bound: bool,
    /// Those that had idle connections at the last look, and others since.
    idle: RefCell<Vec<Weak<dyn MaintainPool>>>,
    /// How many of them have connections that are not parked.
    warm: Cell<usize>,
    /// There are more of them than may wait.
    crowded: Notify,
    maintaining: Cell<bool>,
}

/// A pool that is looked after.
pub(super) trait MaintainPool {
    /// Parks connections that have been idle for `park`, and closes those that were for too long.
    fn maintain(&self, now: Instant, park: Duration) -> Option<IdleLeft>;

    /// Its place among the others.
    fn entry(&self) -> &PoolEntry;
}

/// The idle connections that a pool has left.
pub(super) struct IdleLeft {
    /// Whether some of them are not parked.
    pub(super) warm: bool,
    /// When something is to be done about the first of them.
    pub(super) due: Instant,
}

/// A pool's place among those that are looked after.
pub(super) struct PoolEntry {
    pools: Rc<PoolsState>,
    /// Whether it is counted as one that has connections that are not parked.
    warm: Cell<bool>,
    listed: Cell<bool>,
}

impl Http1Pools {
    /// Pools within these bounds, whose connections carry all requests. There are none yet.
    pub fn new(settings: PoolSettings) -> Self {
        Self::with(settings, false)
    }

    /// Pools within these bounds, each of whose connections carries the requests of one client to one host.
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

    /// A place for one more pool.
    pub(super) fn entry(&self) -> PoolEntry {
        PoolEntry {
            pools: self.0.clone(),
            warm: Cell::new(false),
            listed: Cell::new(false),
        }
    }

    /// How many pools have idle connections, for `/state`.
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

    /// The bounds of the pool.
    pub(super) fn settings(&self) -> &PoolSettings {
        &self.pools.settings
    }

    /// The pool has an idle connection that is not parked. Called for every request: it is known already for most.
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

    /// Looks at all pools that have idle connections, and returns when something is due for one of them.
    async fn look(&self) -> Option<Instant> {
        let now = Instant::now();
        let park = match self.is_crowded() {
            true => limits::HTTP1_PARK_CROWDED,
            false => limits::HTTP1_PARK,
        };
        let mut due = None;
        // What comes meanwhile is for the next time.
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

/// Looks after the pools until none has an idle connection.
async fn maintain(pools: Rc<PoolsState>) {
    let mut looked = Instant::now();
    // Before what is due first, others may become idle for which that is too late.
    let latest = limits::HTTP1_PARK.min(pools.settings.idle_timeout);
    // What is due one after the other is done together: all pools are looked at.
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

/// How many pools are looked at before requests get their turn, which takes at most some 50 us: as long as it takes to
/// park a connection of each.
const LOOKS_AT_ONCE: usize = 32;
