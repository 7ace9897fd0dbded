//! A worker's view of the taps.

use super::{
    active::Tap,
    registry::{TapRegistry, TapSnapshot},
};
use linkerd_proxy_core::task::spawn_local;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// The open taps, as a worker knows them.
#[derive(Debug)]
pub struct WorkerTaps {
    is_empty: Cell<bool>,
    taps: RefCell<TapSnapshot>,
}

impl WorkerTaps {
    /// Follows the taps of a registry as long as that exists. Must run on a worker.
    pub fn follow(registry: &TapRegistry) -> Rc<Self> {
        let mut snapshots = registry.snapshots();
        let taps = Rc::new(Self::none());
        taps.replace(snapshots.borrow_and_update().clone());
        let followed = taps.clone();
        spawn_local(async move {
            while snapshots.changed().await.is_ok() {
                followed.replace(snapshots.borrow_and_update().clone());
            }
        });
        taps
    }

    /// No taps, permanently.
    pub fn none() -> Self {
        Self {
            is_empty: Cell::new(true),
            taps: RefCell::new(Arc::new([])),
        }
    }

    /// Whether there are no taps.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.is_empty.get()
    }

    /// The taps that take further requests.
    pub fn open(&self) -> Vec<Arc<Tap>> {
        let taps = self.taps.borrow();
        taps.iter().filter(|tap| tap.is_open()).cloned().collect()
    }

    fn replace(&self, taps: TapSnapshot) {
        self.is_empty.set(taps.is_empty());
        *self.taps.borrow_mut() = taps;
    }
}
