//! The listeners of one worker.

use super::{ListenerError, ListenerId, ListenerSpec};
use linkerd_proxy_core::transport::ListenerContext;
use serde_json::{Value, json};
use std::{net::SocketAddr, rc::Rc};

/// The listeners of a worker: those that are active, and those that drain.
///
/// `T` is the means by which the owner of the table ends an active listener.
#[derive(Debug)]
pub struct ListenerTable<T> {
    limit: usize,
    /// In the order in which listeners were added. They are few: a search costs no more than a map.
    entries: Vec<ListenerEntry<T>>,
}

#[derive(Debug)]
struct ListenerEntry<T> {
    id: ListenerId,
    listener: ListenerSpec,
    addr: SocketAddr,
    context: Rc<ListenerContext>,
    /// `None` after the removal: the entry stays until the connections have ended.
    active: Option<T>,
}

impl<T> ListenerTable<T> {
    /// A table of at most `limit` listeners, with those that drain.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: Vec::new(),
        }
    }

    /// Whether a listener can be added.
    pub fn check(&self) -> Result<(), ListenerError> {
        match self.entries.len() < self.limit {
            true => Ok(()),
            false => Err(ListenerError::Limit(self.limit)),
        }
    }

    /// Adds a listener, which [`check`](Self::check) allows.
    pub fn add(
        &mut self,
        id: ListenerId,
        listener: ListenerSpec,
        addr: SocketAddr,
        context: Rc<ListenerContext>,
        active: T,
    ) -> Result<(), ListenerError> {
        self.check()?;
        self.entries.push(ListenerEntry {
            id,
            listener,
            addr,
            context,
            active: Some(active),
        });
        Ok(())
    }

    /// An active listener.
    pub fn active(&self, id: ListenerId) -> Option<&T> {
        let entry = self.entries.iter().find(|entry| entry.id == id)?;
        entry.active.as_ref()
    }

    /// Makes an active listener one that drains.
    pub fn remove(&mut self, id: ListenerId) -> Option<T> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        entry.active.take()
    }

    /// Forgets a listener whose connections have ended.
    pub fn drained(&mut self, id: ListenerId) {
        self.entries.retain(|entry| entry.id != id);
    }

    /// The listeners, for `/state`.
    pub fn inspect(&self) -> Value {
        let entries = self.entries.iter().map(ListenerEntry::inspect);
        json!({ "limit": self.limit, "open": entries.collect::<Vec<_>>() })
    }
}

impl<T> ListenerEntry<T> {
    fn inspect(&self) -> Value {
        json!({
            "name": self.listener.name.to_string(),
            "direction": self.listener.direction.label(),
            "address": self.addr.to_string(),
            "connections": self.context.connections(),
            "draining": self.context.drain().is_draining(),
        })
    }
}

/// Listeners of a worker. A proxy has a handful; a control plane that adds and removes them in a loop, faster than
/// their connections end, is refused before descriptors run out.
pub const MAX_LISTENERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::drain;

    fn add(
        table: &mut ListenerTable<u16>,
        name: &str,
        drain: &drain::Handle,
        id: u16,
    ) -> Result<Rc<ListenerContext>, ListenerError> {
        let context = ListenerContext::new(drain.clone());
        let addr = ([127, 0, 0, 1], id).into();
        let (key, listener) = (ListenerId(id.into()), ListenerSpec::outbound(name));
        table.add(key, listener, addr, context.clone(), id)?;
        Ok(context)
    }

    #[test]
    fn listeners_of_one_name_are_told_apart_by_their_ids() {
        let (_signal, drain) = drain::channel();
        let mut table = ListenerTable::new(8);
        add(&mut table, "web", &drain, 1).unwrap();
        add(&mut table, "web", &drain, 2).unwrap();
        assert_eq!(table.remove(ListenerId(1)), Some(1));
        assert_eq!(table.remove(ListenerId(1)), None, "it drains");
        assert_eq!(table.active(ListenerId(1)), None);
        assert_eq!(table.active(ListenerId(2)), Some(&2));
    }

    #[test]
    fn those_that_drain_count_until_they_have() {
        let (_signal, drain) = drain::channel();
        let mut table = ListenerTable::new(2);
        add(&mut table, "one", &drain, 1).unwrap();
        add(&mut table, "two", &drain, 2).unwrap();
        table.remove(ListenerId(1)).unwrap();
        let error = add(&mut table, "three", &drain, 3).unwrap_err();
        assert!(matches!(error, ListenerError::Limit(2)));
        table.drained(ListenerId(1));
        add(&mut table, "three", &drain, 3).unwrap();
    }

    #[test]
    fn the_state_shows_each_listener_with_its_connections() {
        let (_process, root) = drain::channel();
        let ((signal, drain), (_other, quiet)) = (root.child(), root.child());
        let mut table = ListenerTable::new(2);
        let context = add(&mut table, "one", &drain, 1).unwrap();
        add(&mut table, "two", &quiet, 2).unwrap();
        let _guard = context.connection();
        table.remove(ListenerId(1)).unwrap();
        drop(signal);
        let listener = |name, address, connections, draining| {
            json!({
                "name": name,
                "direction": "outbound",
                "address": address,
                "connections": connections,
                "draining": draining,
            })
        };
        let open = [
            listener("one", "127.0.0.1:1", 1, true),
            listener("two", "127.0.0.1:2", 0, false),
        ];
        assert_eq!(table.inspect(), json!({ "limit": 2, "open": open }));
    }
}
