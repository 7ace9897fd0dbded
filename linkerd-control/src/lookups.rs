use crate::target::TargetKey;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The kind of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// `Destination.Get`.
    Destination,
    /// `Destination.GetProfile`.
    Profile,
    /// `OutboundPolicies.Watch` and `OutboundPolicies.Get`.
    Policy,
    /// `InboundServerPolicies.WatchPort` and `InboundServerPolicies.GetPort`.
    Server,
}

/// A look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The number among all look-ups, from 0.
    pub sequence: u64,
    /// The kind.
    pub kind: LookupKind,
    /// The path, address or authority, as it was sent; for a port `:port`.
    pub target: String,
    /// The `context_token` of a destination or profile lookup, the workload of a policy or server lookup.
    pub context: String,
    /// Open streams of this kind and target at the time.
    pub open_streams: usize,
}

/// The expected look-up or number of streams did not come in time.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no {what} within {within:?}; there were {saw}")]
pub struct ExpectationError {
    pub(crate) what: String,
    pub(crate) within: Duration,
    pub(crate) saw: String,
}

/// The last look-ups, oldest first.
pub(crate) struct LookupLog {
    limit: usize,
    next: u64,
    entries: VecDeque<LoggedLookup>,
}

struct LoggedLookup {
    key: String,
    lookup: Lookup,
    expected: bool,
}

impl LookupLog {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            next: 0,
            entries: VecDeque::new(),
        }
    }

    pub(crate) fn record(
        &mut self,
        key: &str,
        kind: LookupKind,
        target: String,
        context: String,
        open_streams: usize,
    ) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(LoggedLookup {
            key: key.to_owned(),
            expected: false,
            lookup: Lookup {
                sequence: self.next,
                kind,
                target,
                context,
                open_streams,
            },
        });
        self.next += 1;
    }

    /// The oldest look-up of the target that was not returned yet.
    pub(crate) fn take(&mut self, kind: LookupKind, key: &TargetKey) -> Option<Lookup> {
        let found = self
            .entries
            .iter_mut()
            .find(|e| !e.expected && e.lookup.kind == kind && key.includes(&e.key))?;
        found.expected = true;
        Some(found.lookup.clone())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Lookup> {
        self.entries.iter().map(|e| &e.lookup)
    }
}

impl fmt::Display for LookupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destination => "destination",
            Self::Profile => "profile",
            Self::Policy => "policy",
            Self::Server => "server",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_forgets_the_oldest_and_gives_each_lookup_once() {
        let mut log = LookupLog::new(2);
        for target in ["a:80", "b:80", "b:80"] {
            log.record(target, LookupKind::Policy, target.into(), String::new(), 0);
        }
        let b = TargetKey::One("b:80".into());
        assert!(
            log.take(LookupKind::Policy, &TargetKey::One("a:80".into()))
                .is_none()
        );
        assert!(log.take(LookupKind::Profile, &b).is_none());
        assert_eq!(
            log.take(LookupKind::Policy, &b).map(|l| l.sequence),
            Some(1)
        );
        assert_eq!(
            log.take(LookupKind::Policy, &TargetKey::Any)
                .map(|l| l.sequence),
            Some(2)
        );
        assert!(log.take(LookupKind::Policy, &b).is_none());
        assert_eq!(log.all().count(), 2);
    }
}
