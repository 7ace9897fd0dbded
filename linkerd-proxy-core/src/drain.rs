//! Ending gracefully: everybody is told, and everybody is waited for.

use tokio::sync::watch;

/// Tells that the end has begun, and waits until everybody who holds a [`Watch`] has let go.
#[derive(Debug)]
pub struct Signal(watch::Sender<bool>);

/// Learns of the end. Holding it holds the end up.
#[derive(Clone, Debug)]
pub struct Watch(watch::Receiver<bool>);

/// A signal and its first watch.
pub fn channel() -> (Signal, Watch) {
    let (tx, rx) = watch::channel(false);
    (Signal(tx), Watch(rx))
}

impl Signal {
    /// Tells everybody, and returns when all watches are dropped.
    pub async fn drain(self) {
        self.0.send_replace(true);
        self.0.closed().await;
    }

    /// How many watches are held.
    pub fn held(&self) -> usize {
        self.0.receiver_count()
    }
}

impl Watch {
    /// Resolves when the end has begun. Cancel safe.
    pub async fn signaled(&mut self) {
        // An error means that the signal is gone, which is the end as well.
        let _ = self.0.wait_for(|draining| *draining).await;
    }

    /// Whether the end has begun.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_everybody() {
        let (signal, mut watch) = channel();
        let other = watch.clone();
        assert!(!watch.is_draining());
        let mut drained = tokio_test::task::spawn(signal.drain());
        assert!(drained.poll().is_pending());
        watch.signaled().await;
        drop(watch);
        assert!(drained.poll().is_pending());
        drop(other);
        assert!(drained.is_woken());
        assert!(drained.poll().is_ready());
    }
}
