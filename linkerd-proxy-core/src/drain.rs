//! Ending gracefully: everybody is told, and everybody who is busy is waited for.

use tokio::sync::{mpsc, watch};

/// Tells that the end has begun, and waits until everybody who holds a [`Watch`] has let go.
#[derive(Debug)]
pub struct Signal {
    draining: watch::Sender<bool>,
    hold: mpsc::Sender<()>,
    released: mpsc::Receiver<()>,
}

/// Learns of the end, and gives out watches. It does not hold the end up itself.
#[derive(Clone, Debug)]
pub struct Handle {
    draining: watch::Receiver<bool>,
    hold: mpsc::WeakSender<()>,
}

/// Learns of the end, and holds it up until it is dropped.
#[derive(Clone, Debug)]
pub struct Watch {
    draining: watch::Receiver<bool>,
    _hold: Option<mpsc::Sender<()>>,
}

/// A signal, and what learns of it.
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
    /// Tells everybody, and returns when all watches are dropped.
    pub async fn drain(self) {
        let Self {
            draining,
            hold,
            mut released,
        } = self;
        draining.send_replace(true);
        drop(hold);
        // Nothing is ever sent: it resolves when the last holder is gone.
        released.recv().await;
    }
}

impl Handle {
    /// A watch that holds the end up. One that is taken after the end holds nothing up.
    pub fn watch(&self) -> Watch {
        Watch {
            draining: self.draining.clone(),
            _hold: self.hold.upgrade(),
        }
    }

    /// Resolves when the end has begun. Cancel safe.
    pub async fn signaled(&mut self) {
        signaled(&mut self.draining).await;
    }
}

impl Watch {
    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        // Nothing but the end is ever sent, and this receiver never looks at what was.
        self.draining.has_changed().unwrap_or(true)
    }

    /// Resolves when the end has begun. Cancel safe.
    pub async fn signaled(&mut self) {
        signaled(&mut self.draining).await;
    }
}

async fn signaled(draining: &mut watch::Receiver<bool>) {
    // An error means that the signal is gone, which is the end as well.
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
