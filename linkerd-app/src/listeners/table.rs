//! The listeners of one worker, by name.

use super::{ListenerError, ListenerName, ListenerSpec};
use linkerd_proxy_core::transport::ListenerContext;
use serde_json::{Value, json};
use std::{net::SocketAddr, rc::Rc};

/// The listeners of a worker: at most one that is active for each name, and those that drain.
///
/// `T` is the means by which the owner of the table ends an active listener.
#[derive(Debug)]
pub struct ListenerTable<T> {
    limit: usize,
    next: u64,
    /// In the order in which listeners were added. They are few: a search costs no more than a map.
    entries: Vec<ListenerEntry<T>>,
}

/// Identifies a listener of a worker: an active listener and others that drain may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerId(u64);

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
            next: 0,
            entries: Vec::new(),
        }
    }

    /// Whether a listener of this name can be added.
    pub fn check(&self, name: &ListenerName) -> Result<(), ListenerError> {
        if self.position(name).is_some() {
            return Err(ListenerError::Exists(name.clone()));
        }
        if self.entries.len() >= self.limit {
            return Err(ListenerError::Limit(self.limit));
        }
        Ok(())
    }

    /// Adds a listener, which [`check`](Self::check) allows.
    pub fn add(
        &mut self,
        listener: ListenerSpec,
        addr: SocketAddr,
        context: Rc<ListenerContext>,
        active: T,
    ) -> Result<ListenerId, ListenerError> {
        self.check(&listener.name)?;
        let id = ListenerId(self.next);
        self.next += 1;
        self.entries.push(ListenerEntry {
            id,
            listener,
            addr,
            context,
            active: Some(active),
        });
        Ok(id)
    }

    /// Makes an active listener one that drains. Its name can be used again.
    pub fn remove(&mut self, name: &ListenerName) -> Result<(ListenerId, T), ListenerError> {
        let unknown = || ListenerError::Unknown(name.clone());
        let position = self.position(name).ok_or_else(unknown)?;
        let entry = &mut self.entries[position];
        let active = entry.active.take().ok_or_else(unknown)?;
        Ok((entry.id, active))
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

    fn position(&self, name: &ListenerName) -> Option<usize> {
        let named =
            |entry: &ListenerEntry<T>| entry.active.is_some() && entry.listener.name == *name;
        self.entries.iter().position(named)
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
        port: u16,
    ) -> Result<(ListenerId, Rc<ListenerContext>), ListenerError> {
        let context = ListenerContext::new(drain.clone());
        let addr = ([127, 0, 0, 1], port).into();
        let id = table.add(ListenerSpec::outbound(name), addr, context.clone(), port)?;
        Ok((id, context))
    }

    #[test]
    fn a_name_is_that_of_one_active_listener() {
        let (_signal, drain) = drain::channel();
        let mut table = ListenerTable::new(8);
        let (first, _) = add(&mut table, "web", &drain, 1).unwrap();
        let (other, _) = add(&mut table, "api", &drain, 2).unwrap();
        let error = add(&mut table, "web", &drain, 3).unwrap_err();
        assert!(matches!(error, ListenerError::Exists(name) if name == "web".into()));

        assert_eq!(table.remove(&"web".into()).unwrap(), (first, 1));
        let error = table.remove(&"web".into()).unwrap_err();
        assert!(matches!(error, ListenerError::Unknown(_)), "it drains");
        let (second, _) = add(&mut table, "web", &drain, 4).unwrap();
        assert_eq!(table.remove(&"web".into()).unwrap(), (second, 4));
        assert_eq!(table.remove(&"api".into()).unwrap(), (other, 2));
    }

    #[test]
    fn those_that_drain_count_until_they_have() {
        let (_signal, drain) = drain::channel();
        let mut table = ListenerTable::new(2);
        let (first, _) = add(&mut table, "one", &drain, 1).unwrap();
        add(&mut table, "two", &drain, 2).unwrap();
        table.remove(&"one".into()).unwrap();
        let error = add(&mut table, "three", &drain, 3).unwrap_err();
        assert!(matches!(error, ListenerError::Limit(2)));
        table.drained(first);
        add(&mut table, "three", &drain, 3).unwrap();
    }

    #[test]
    fn the_state_shows_each_listener_with_its_connections() {
        let (_process, root) = drain::channel();
        let ((signal, drain), (_other, quiet)) = (root.child(), root.child());
        let mut table = ListenerTable::new(2);
        let (_, context) = add(&mut table, "one", &drain, 1).unwrap();
        add(&mut table, "two", &quiet, 2).unwrap();
        let _guard = context.connection();
        table.remove(&"one".into()).unwrap();
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
