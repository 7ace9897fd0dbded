//! Routes of TLS connections that are passed through, by their server names.

use crate::{
    backend::{Distribution, TcpFilter},
    meta::Meta,
    route::{HostIndex, HostMatch},
};
use std::sync::Arc;

/// The TLS routes of a policy, in its order.
#[derive(Clone, Debug, Default)]
pub struct TlsTable {
    routes: Vec<TlsRoute>,
    names: HostIndex,
}

/// A route of TLS connections.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsRoute {
    /// The resource that configured the route.
    pub meta: Arc<Meta>,
    /// The server names of its connections. Empty: all names.
    pub snis: Vec<SniMatch>,
    /// The backends of its connections.
    pub distribution: Distribution,
    /// The filter that refuses its connections.
    pub filter: Option<TcpFilter>,
}

/// A pattern for the server name of a connection.
pub type SniMatch = HostMatch;

impl TlsTable {
    /// A table of routes.
    pub fn new(routes: Vec<TlsRoute>) -> Self {
        let mut names = HostIndex::default();
        for (index, route) in routes.iter().enumerate() {
            names.add(index, &route.snis);
        }
        Self { routes, names }
    }

    /// The routes, in their order.
    pub fn routes(&self) -> &[TlsRoute] {
        &self.routes
    }

    /// The routes, in their order, mutable except for their names.
    pub fn routes_mut(&mut self) -> impl Iterator<Item = (&mut Arc<Meta>, &mut Distribution)> {
        let routes = self.routes.iter_mut();
        routes.map(|route| (&mut route.meta, &mut route.distribution))
    }

    /// The index of the route for a server name: an exact name before a suffix, a longer suffix before a shorter one, and the
    /// first route of equal ones.
    pub fn find(&self, server_name: &str) -> Option<usize> {
        let mut levels = self.names.of(server_name);
        levels.find_map(|routes| routes.first().copied())
    }
}

impl PartialEq for TlsTable {
    fn eq(&self, other: &Self) -> bool {
        self.routes == other.routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(snis: &[&str]) -> TlsRoute {
        let sni = |name: &&str| match name.strip_prefix("*.") {
            Some(suffix) => HostMatch::Suffix(suffix.rsplit('.').map(str::to_owned).collect()),
            None => HostMatch::Exact((*name).to_owned()),
        };
        TlsRoute {
            meta: Arc::new(Meta::new_default("test")),
            snis: snis.iter().map(sni).collect(),
            distribution: Distribution::Empty,
            filter: None,
        }
    }

    #[test]
    fn the_more_specific_name_wins_and_the_first_of_equals() {
        let table = TlsTable::new(vec![
            route(&["*.example"]),
            route(&["*.web.example", "other.test"]),
            route(&["a.web.example"]),
            route(&["a.web.example", "*.web.example"]),
        ]);
        for (name, expected) in [
            ("a.web.example", Some(2)),
            ("b.web.example", Some(1)),
            ("web.example", Some(0)),
            ("other.test", Some(1)),
            ("another.test", None),
        ] {
            assert_eq!(table.find(name), expected, "{name}");
        }
        let any = TlsTable::new(vec![route(&[]), route(&["a.test"])]);
        assert_eq!((any.find("a.test"), any.find("b.test")), (Some(1), Some(0)));
    }
}
