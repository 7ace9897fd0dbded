//! Addresses of the proxy's own listeners, which are added and removed at run time.

use parking_lot::RwLock;
use std::{net::SocketAddr, sync::Arc};

/// Addresses of the proxy's own listeners. Clones share them.
///
/// - **Bounds**: the listeners of the proxy.
/// - **Costs** a lock for each connection that is dialled.
#[derive(Clone, Debug, Default)]
pub struct OwnListeners(Arc<RwLock<Vec<SocketAddr>>>);

impl OwnListeners {
    /// Adds the address of a listener. Two listeners may have the same address, while one replaces the other.
    pub fn add(&self, addr: SocketAddr) {
        self.0.write().push(addr);
    }

    /// Removes the address of one listener.
    pub fn remove(&self, addr: SocketAddr) {
        let mut addrs = self.0.write();
        if let Some(index) = addrs.iter().position(|own| *own == addr) {
            addrs.swap_remove(index);
        }
    }

    /// Whether `is_own` holds for one of the addresses.
    pub(super) fn any(&self, is_own: impl Fn(&SocketAddr) -> bool) -> bool {
        self.0.read().iter().any(is_own)
    }
}

impl FromIterator<SocketAddr> for OwnListeners {
    fn from_iter<T: IntoIterator<Item = SocketAddr>>(addrs: T) -> Self {
        Self(Arc::new(RwLock::new(addrs.into_iter().collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_until_the_last_listener_with_it_is_gone() {
        let addr = ([127, 0, 0, 1], 4140).into();
        let (listeners, is) = (OwnListeners::default(), |own: &SocketAddr| *own == addr);
        let clone = listeners.clone();
        listeners.add(addr);
        listeners.add(addr);
        listeners.remove(addr);
        assert!(clone.any(is));
        listeners.remove(addr);
        assert!(!clone.any(is));
        listeners.remove(addr);
    }
}
