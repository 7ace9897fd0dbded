//! The listeners of one worker.

use super::{ListenerError, ListenerId, ListenerSpec};
use linkerd_proxy_core::transport::ListenerContext;
use serde_json::{Value, json};
use std::{net::SocketAddr, rc::Rc};
use tokio::time::Instant;

/// The listeners of a worker: those that are active, and those that drain.
///
/// `T` lets the owner of the table end an active listener.
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
    added: Instant,
    /// The time of its removal.
    removed: Option<Instant>,
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
            added: Instant::now(),
            removed: None,
            active: Some(active),
        });
        Ok(())
    }

    /// An active listener.
    pub fn active(&self, id: ListenerId) -> Option<&T> {
        let entry = self.entries.iter().find(|entry| entry.id == id)?;
        entry.active.as_ref()
    }

    /// Turns an active listener into a draining one.
    pub fn remove(&mut self, id: ListenerId) -> Option<T> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        let active = entry.active.take()?;
        entry.removed = Some(Instant::now());
        Some(active)
    }

    /// The contexts of all listeners, with those that drain.
    pub fn contexts(&self) -> Vec<Rc<ListenerContext>> {
        let entries = self.entries.iter();
        entries.map(|entry| entry.context.clone()).collect()
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
            "age_ms": millis(self.added),
            "removed_ms": self.removed.map(millis),
        })
    }
}

/// The listeners of all workers as one list. Entries with the same name, address and drain state are merged.
pub fn merge(workers: Vec<Value>) -> Value {
    let mut merged: Vec<Value> = Vec::new();
    let same = |a: &Value, b: &Value| {
        ["name", "address", "draining"]
            .iter()
            .all(|field| a[*field] == b[*field])
    };
    for worker in workers {
        for listener in worker["open"].as_array().into_iter().flatten() {
            let known = merged.iter_mut().find(|known| same(known, listener));
            match known {
                None => merged.push(listener.clone()),
                Some(known) => {
                    let connections = |listener: &Value| listener["connections"].as_u64();
                    let sum = connections(known).unwrap_or(0) + connections(listener).unwrap_or(0);
                    known["connections"] = sum.into();
                }
            }
        }
    }
    Value::Array(merged)
}

fn millis(since: Instant) -> u64 {
    since.elapsed().as_millis() as u64
}

/// Listeners of a worker. A proxy has a handful; a control plane that adds and removes them in a loop, faster than
/// their connections end, is refused before descriptors run out.
pub const MAX_LISTENERS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::drain;
    use std::time::Duration;

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
    fn the_listeners_of_all_workers_are_summed() {
        let worker = |connections: u64, draining: bool| {
            json!({ "open": [{
                "name": "one", "address": "127.0.0.1:1",
                "connections": connections, "draining": draining,
            }] })
        };
        let merged = merge(vec![
            worker(1, false),
            worker(2, false),
            worker(4, true),
            Value::Null,
        ]);
        let counts = merged.as_array().unwrap().iter();
        let counts: Vec<_> = counts
            .map(|it| it["connections"].as_u64().unwrap())
            .collect();
        assert_eq!(counts, [3, 4], "one is removed on a worker already");
    }

    #[tokio::test(start_paused = true)]
    async fn the_state_shows_each_listener_with_its_connections() {
        let (_process, root) = drain::channel();
        let ((signal, drain), (_other, quiet)) = (root.child(), root.child());
        let mut table = ListenerTable::new(2);
        let context = add(&mut table, "one", &drain, 1).unwrap();
        add(&mut table, "two", &quiet, 2).unwrap();
        let _guard = context.connection();
        tokio::time::advance(Duration::from_secs(2)).await;
        table.remove(ListenerId(1)).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(signal);
        let listener = |name, address, connections, draining: bool| {
            json!({
                "name": name,
                "direction": "outbound",
                "address": address,
                "connections": connections,
                "draining": draining,
                "age_ms": 3000,
                "removed_ms": draining.then_some(1000),
            })
        };
        let open = [
            listener("one", "127.0.0.1:1", 1, true),
            listener("two", "127.0.0.1:2", 0, false),
        ];
        assert_eq!(table.inspect(), json!({ "limit": 2, "open": open }));
    }
}
