//! Server names of TLS that the proxy passes through, as labels: clients choose them.

use super::label_names::{LabelNames, OTHERS};
use std::{cell::RefCell, collections::HashMap, net::SocketAddr, sync::Arc};
use tokio::time::Instant;

/// The server names that are told apart in labels, for each port of the application.
///
/// - **Bounds**: 100 names of a port and 256 ports. A further name takes the place of one that was idle for ten minutes, or is `other`.
#[derive(Debug, Default)]
pub struct ServerNames(RefCell<HashMap<u16, LabelNames>>);

impl ServerNames {
    /// The label of a name that a client of an application asks for.
    pub fn label(&self, application: SocketAddr, name: &str, now: Instant) -> Arc<str> {
        let mut ports = self.0.borrow_mut();
        if ports.len() >= MAX_PORTS && !ports.contains_key(&application.port()) {
            return OTHERS.into();
        }
        ports
            .entry(application.port())
            .or_insert_with(|| LabelNames::new(MAX_NAMES))
            .label(name, now)
    }

    /// The number of names, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let ports = self.0.borrow();
        let names: usize = ports.values().map(LabelNames::len).sum();
        serde_json::json!({ "names": names, "limit_of_port": MAX_NAMES, "ports": ports.len(), "limit": MAX_PORTS })
    }
}

/// The most names of a port that are told apart.
const MAX_NAMES: usize = 100;
/// The most ports with names.
const MAX_PORTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_hundred_names_and_there_are_256_ports() {
        let names = ServerNames::default();
        let now = Instant::now();
        let label = |port, name: &str| names.label(([10, 0, 0, 1], port).into(), name, now);
        for number in 0..300 {
            let name = format!("{number}.test");
            let expected = if number < 100 { &name } else { OTHERS };
            assert_eq!(&*label(443, &name), expected);
        }
        assert_eq!(&*label(8443, "300.test"), "300.test");
        for port in 1_000..2_000 {
            label(port, "a.test");
        }
        assert_eq!(names.inspect()["ports"], 256);
    }
}
