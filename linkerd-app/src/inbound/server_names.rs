//! Server names of TLS that the proxy passes through, as labels: clients choose them.

use std::{cell::RefCell, collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The server names that are told apart in labels, for each port of the application.
///
/// - **Bounds**: 100 names of a port and 256 ports. A further name takes the place of one that was idle for ten minutes, or is `other`.
#[derive(Debug, Default)]
pub struct ServerNames(RefCell<HashMap<u16, Names>>);

/// The names of one port, with the last use of each.
#[derive(Debug, Default)]
struct Names(HashMap<Arc<str>, Instant>);

impl ServerNames {
    /// The label of a name that a client of an application asks for.
    pub fn label(&self, application: SocketAddr, name: &str, now: Instant) -> Arc<str> {
        let mut ports = self.0.borrow_mut();
        if ports.len() >= MAX_PORTS && !ports.contains_key(&application.port()) {
            return OTHERS.into();
        }
        ports
            .entry(application.port())
            .or_default()
            .label(name, now)
    }

    /// The number of names, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let ports = self.0.borrow();
        let names: usize = ports.values().map(|names| names.0.len()).sum();
        serde_json::json!({ "names": names, "limit_of_port": MAX_NAMES, "ports": ports.len(), "limit": MAX_PORTS })
    }
}

impl Names {
    fn label(&mut self, name: &str, now: Instant) -> Arc<str> {
        if let Some((known, used)) = self
            .0
            .get_key_value(name)
            .map(|(known, _)| (known.clone(), now))
        {
            self.0.insert(known.clone(), used);
            return known;
        }
        if self.0.len() >= MAX_NAMES {
            let oldest = self.0.iter().min_by_key(|(_, used)| **used);
            let idle = oldest.filter(|(_, used)| now.saturating_duration_since(**used) >= IDLE);
            match idle.map(|(name, _)| name.clone()) {
                Some(idle) => self.0.remove(&idle),
                None => return OTHERS.into(),
            };
        }
        let name = Arc::<str>::from(name);
        self.0.insert(name.clone(), now);
        name
    }
}

/// The most names of a port that are told apart.
const MAX_NAMES: usize = 100;
/// The most ports with names.
const MAX_PORTS: usize = 256;
/// The time after which a name gives way to another. Its series are dropped after the idle time of metrics.
const IDLE: Duration = Duration::from_secs(600);
/// The label of all other names.
const OTHERS: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    fn port(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn a_port_has_a_hundred_names_and_the_idle_ones_give_way() {
        let names = ServerNames::default();
        let start = Instant::now();
        for number in 0..3_000 {
            let name = format!("{number}.test");
            let label = names.label(port(443), &name, start);
            let expected = if number < 100 { &name } else { "other" };
            assert_eq!(&*label, expected);
        }
        // Names in use stay.
        let later = start + IDLE / 2;
        assert_eq!(&*names.label(port(443), "0.test", later), "0.test");
        let much_later = start + IDLE;
        assert_eq!(&*names.label(port(443), "new.test", much_later), "new.test");
        assert_eq!(&*names.label(port(443), "0.test", much_later), "0.test");
        assert_eq!(&*names.label(port(8443), "new.test", start), "new.test");
        assert_eq!(names.inspect()["names"], 101);
    }

    #[test]
    fn ports_are_bounded() {
        let names = ServerNames::default();
        let now = Instant::now();
        for number in 0..1_000 {
            names.label(port(number), "a.test", now);
        }
        assert_eq!(names.inspect()["ports"], 256);
    }
}
