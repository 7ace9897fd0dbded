//! The stacks of rules for each host, for metrics with hostname labels.

use std::{collections::HashMap, net::IpAddr};

/// Stacks by the index of their rule and the host, which is the label of their metrics.
///
/// - **Bounds**: 100 pairs of a rule and a host. All addresses share one stack, and so do the names beyond the bound (`other`).
pub struct HostRoutes<S>(HashMap<(usize, Box<str>), S>);

impl<S> HostRoutes<S> {
    /// The stack of a rule for a host, built by `make` if missing.
    pub fn get(&mut self, index: usize, host: &str, make: impl FnOnce(&str) -> S) -> &mut S {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let host = if is_address {
            Box::default()
        } else {
            host.into()
        };
        let mut key = (index, host);
        if self.0.len() >= MAX_HOSTS && !self.0.contains_key(&key) {
            key.1 = OTHER_HOSTS.into();
        }
        self.0.entry(key).or_insert_with_key(|(_, host)| make(host))
    }

    /// Whether a rule has a stack.
    pub fn has(&self, index: usize) -> bool {
        self.0.keys().any(|(known, _)| *known == index)
    }
}

impl<S> Default for HostRoutes<S> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The most pairs of a rule and a host with their own series, for each target and protocol.
const MAX_HOSTS: usize = 100;

/// The label of all other hosts.
const OTHER_HOSTS: &str = "other";
