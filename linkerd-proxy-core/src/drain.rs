//! Graceful shutdown: a signal to all tasks, and a wait for those that are busy.

use tokio::sync::{mpsc, watch};

/// Signals drain, and waits until all [`Watch`]es are dropped.
#[derive(Debug)]
pub struct Signal {
    draining: watch::Sender<bool>,
    hold: mpsc::Sender<()>,
    released: mpsc::Receiver<()>,
}

/// Observes drain and makes watches. Does not delay the end itself.
#[derive(Clone, Debug)]
pub struct Handle {
    draining: watch::Receiver<bool>,
    hold: mpsc::WeakSender<()>,
}

/// Observes drain, and delays the end until dropped.
#[derive(Clone, Debug)]
pub struct Watch {
    draining: watch::Receiver<bool>,
    _hold: Option<mpsc::Sender<()>>,
}

/// A signal and its handle.
pub fn channel() -> (Signal, Handle) {
    let (tx, draining) = watch::channel(false);
    let (hold, released) = mpsc::channel(1);
    let handle = Handle {
        draining,
        hold: hold.downgrade(),
    };
    let signal = Signal {
        draining: tx,
        hold,
        released,
    };
    (signal, handle)
}

impl Signal {
    /// Signals drain; returns when all watches are dropped.
    pub async fn drain(self) {
        let Self {
            draining,
            hold,
            mut released,
        } = self;
        draining.send_replace(true);
        drop(hold);
        // Nothing is ever sent: this resolves when the last watch is dropped.
        released.recv().await;
    }
}

impl Handle {
    /// A watch, which delays the end. One taken after drain has ended delays nothing.
    pub fn watch(&self) -> Watch {
        Watch {
            draining: self.draining.clone(),
            _hold: self.hold.upgrade(),
        }
    }

    /// Resolves when drain is signalled. Cancel safe.
    pub async fn signaled(&mut self) {
        signaled(&mut self.draining).await;
    }
}

impl Watch {
    /// Whether drain was signalled.
    pub fn is_draining(&self) -> bool {
        // Drain is the only change ever sent, and this receiver never marks it as seen.
        self.draining.has_changed().unwrap_or(true)
    }

    /// Resolves when drain is signalled. Cancel safe.
    pub async fn signaled(&mut self) {
        signaled(&mut self.draining).await;
    }
}

async fn signaled(draining: &mut watch::Receiver<bool>) {
    // An error means that the signal was dropped, which counts as drain.
    let _ = draining.wait_for(|draining| *draining).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_everybody_who_holds_it_up() {
        let (signal, handle) = channel();
        let (mut watch, other) = (handle.watch(), handle.watch());
        let mut drained = tokio_test::task::spawn(signal.drain());
        assert!(drained.poll().is_pending());
        watch.signaled().await;
        drop(watch);
        assert!(drained.poll().is_pending());
        drop(other);
        assert!(drained.is_woken());
        assert!(drained.poll().is_ready(), "a handle holds nothing up");
        drop(handle);
    }
}
