//! Graceful shutdown: a signal to tasks, and a wait for the tasks that are busy.
//!
//! Drains form a tree: the process has one, and each listener has one below it. A signal reaches its own drain and all
//! drains below, and no other; its end waits for all watches of its own drain and of the drains below.
//!
//! Before the signal, [`Signal::leave`] lets the watches of the drains below leave cohort by cohort, with nothing closed
//! yet.

mod cohorts;
mod leave;
#[cfg(test)]
mod tests;

use cohorts::Cohorts;
use parking_lot::Mutex;
use std::{
    convert::Infallible,
    mem,
    sync::{Arc, Weak},
};
use tokio::sync::{oneshot, watch};

/// Signals a drain, and waits until all its [`Watch`]es are dropped. Dropping the signal signals the drain, too.
#[derive(Debug)]
pub struct Signal {
    node: Arc<Node>,
    released: oneshot::Receiver<Infallible>,
}

/// Observes a drain, and makes its watches and child drains. Does not delay the end of the drain.
#[derive(Clone, Debug)]
pub struct Handle {
    draining: watch::Receiver<bool>,
    node: Arc<Node>,
}

/// Observes a drain as a member of a cohort, and delays the drain's end until dropped.
#[derive(Clone, Debug)]
pub struct Watch {
    cohort: watch::Receiver<()>,
    _hold: Option<Arc<Hold>>,
}

/// A drain of the tree.
#[derive(Debug)]
struct Node {
    draining: watch::Sender<bool>,
    /// Shared by the watches.
    hold: Weak<Hold>,
    open: Mutex<Open>,
}

/// The part of a drain that its signal ends.
#[derive(Debug, Default)]
struct Open {
    /// Lets watches be taken while there are none; `None` once drain is signalled.
    hold: Option<Arc<Hold>>,
    /// Drains below this one. Dropped drains are removed when another is added.
    children: Vec<Weak<Node>>,
    cohorts: Cohorts,
}

/// Delays the end of a drain, and of the drains above it.
#[derive(Debug)]
struct Hold {
    _released: oneshot::Sender<Infallible>,
    _parent: Option<Arc<Hold>>,
}

/// The signal and the handle of a tree's root.
pub fn channel() -> (Signal, Handle) {
    node(None)
}

fn node(parent: Option<Arc<Hold>>) -> (Signal, Handle) {
    let (tx, draining) = watch::channel(false);
    let (released_tx, released) = oneshot::channel();
    let hold = Arc::new(Hold {
        _released: released_tx,
        _parent: parent,
    });
    let node = Arc::new(Node {
        draining: tx,
        hold: Arc::downgrade(&hold),
        open: Mutex::new(Open {
            hold: Some(hold),
            children: Vec::new(),
            cohorts: Cohorts::open(),
        }),
    });
    let handle = Handle {
        draining,
        node: node.clone(),
    };
    (Signal { node, released }, handle)
}

impl Signal {
    /// Signals drain, and does not wait for its end.
    pub fn signal(&self) {
        self.node.signal();
    }

    /// Signals drain; returns when all watches are dropped.
    pub async fn drain(mut self) {
        self.node.signal();
        // Nothing is ever sent: this resolves when the last watch is dropped.
        let _ = (&mut self.released).await;
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.node.signal();
    }
}

impl Handle {
    /// A watch, which delays the end. A watch taken after drain has ended delays nothing.
    pub fn watch(&self) -> Watch {
        Watch {
            cohort: self.node.open.lock().cohorts.join(),
            _hold: self.node.hold.upgrade(),
        }
    }

    /// A drain below this one. It is signalled from the start if this drain has been signalled.
    pub fn child(&self) -> (Signal, Handle) {
        let mut open = self.node.open.lock();
        let Some(hold) = open.hold.clone() else {
            drop(open);
            let (signal, handle) = node(None);
            signal.node.signal();
            return (signal, handle);
        };
        let (signal, handle) = node(Some(hold));
        open.children.retain(|child| child.strong_count() > 0);
        open.children.push(Arc::downgrade(&signal.node));
        (signal, handle)
    }

    /// Whether drain was signalled.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Resolves when drain is signalled. Cancel safe.
    pub async fn signaled(&mut self) {
        // An error means that the drain is gone, which counts as signalled.
        let _ = self.draining.wait_for(|draining| *draining).await;
    }
}

impl Watch {
    /// Whether drain was signalled, or the cohort of this watch leaves: an atomic load, as connections ask at each wake-up.
    pub fn is_draining(&self) -> bool {
        self.cohort.has_changed().is_err()
    }

    /// Resolves when drain is signalled, or the cohort of this watch leaves. Cancel safe.
    pub async fn signaled(&mut self) {
        // Nothing is ever sent: an error is the end of the cohort.
        let _ = self.cohort.changed().await;
    }
}

impl Node {
    /// Signals this drain and the drains below it, once.
    fn signal(&self) {
        // The lock is not held while others are taken: a hold that is dropped may be the last of the parent's.
        let open = mem::take(&mut *self.open.lock());
        let Open {
            hold,
            children,
            cohorts,
        } = open;
        drop(cohorts);
        if hold.is_some() {
            self.draining.send_replace(true);
        }
        for child in children.iter().filter_map(Weak::upgrade) {
            child.signal();
        }
    }
}
