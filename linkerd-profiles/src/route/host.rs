//! Hosts of routes, and the index of rules by host.

use std::{borrow::Cow, collections::HashMap};

/// A pattern for the host of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMatch {
    /// An exact host.
    Exact(String),
    /// A suffix, its labels from the right: `*.example.com` is `[com, example]`. Matches hosts with at least one more label.
    Suffix(Vec<String>),
}

/// The rules of each host, by their indices: look-ups do not take longer with more hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostIndex {
    exact: HashMap<String, Vec<usize>>,
    suffix: HashMap<String, Vec<usize>>,
    any: Vec<usize>,
}

impl HostIndex {
    /// Adds a rule for `hosts`, or for all hosts if empty. Rules must be added in their order.
    pub(crate) fn add(&mut self, rule: usize, hosts: &[HostMatch]) {
        if hosts.is_empty() {
            self.any.push(rule);
        }
        for host in hosts {
            let rules = match host {
                HostMatch::Exact(host) => {
                    let host = normalised(host).into_owned();
                    self.exact.entry(host).or_default()
                }
                HostMatch::Suffix(labels) => {
                    let labels: Vec<_> = labels.iter().rev().map(String::as_str).collect();
                    let suffix = normalised(&labels.join(".")).into_owned();
                    self.suffix.entry(suffix).or_default()
                }
            };
            // A host may occur twice in one rule.
            if rules.last() != Some(&rule) {
                rules.push(rule);
            }
        }
    }

    /// The rules, if none of them depends on the host.
    pub(crate) fn only_any(&self) -> Option<&[usize]> {
        (self.exact.is_empty() && self.suffix.is_empty()).then_some(&self.any)
    }

    /// The rules for a host, those of the most specific host first: itself, its longest suffix, any host.
    pub(crate) fn of<'a>(&'a self, host: &str) -> impl Iterator<Item = &'a [usize]> + use<'a> {
        let host = normalised(host);
        let exact = self.exact.get(&*host);
        let suffixes: Vec<_> = match self.suffix.is_empty() {
            true => Vec::new(),
            false => host
                .match_indices('.')
                .take(MAX_LABELS)
                .filter_map(|(dot, _)| self.suffix.get(&host[dot + 1..]))
                .collect(),
        };
        let any = Some(&self.any);
        exact
            .into_iter()
            .chain(suffixes)
            .chain(any)
            .map(Vec::as_slice)
    }
}

/// Whether two texts name the same host.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    normalised(one) == normalised(other)
}

/// A host in lower case and without a trailing dot.
fn normalised(host: &str) -> Cow<'_, str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => host.to_ascii_lowercase().into(),
        false => host.into(),
    }
}

/// The most labels of a host that are examined; a DNS name has fewer (RFC 1035, section 2.3.4).
const MAX_LABELS: usize = 127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_host_comes_first() {
        let suffix = |labels: &[&str]| {
            HostMatch::Suffix(labels.iter().map(|label| (*label).to_owned()).collect())
        };
        let mut index = HostIndex::default();
        index.add(0, &[]);
        index.add(1, &[suffix(&["test"])]);
        index.add(2, &[suffix(&["test", "web"]), suffix(&["TEST", "web"])]);
        index.add(3, &[HostMatch::Exact("A.Web.test.".into())]);
        index.add(
            4,
            &[HostMatch::Exact("a.web.test".into()), suffix(&["org"])],
        );
        let rules = |host: &str| -> Vec<usize> { index.of(host).flatten().copied().collect() };
        assert_eq!(rules("a.web.test"), [3, 4, 2, 1, 0]);
        assert_eq!(rules("A.WEB.TEST."), [3, 4, 2, 1, 0]);
        assert_eq!(rules("b.web.test"), [2, 1, 0]);
        assert_eq!(
            rules("web.test"),
            [1, 0],
            "a suffix needs a label before it"
        );
        assert_eq!(rules("notweb.test"), [1, 0]);
        assert_eq!(rules("test"), [0]);
        assert_eq!(rules("org.test.org"), [4, 0]);
        assert_eq!(rules(""), [0]);
    }
}
