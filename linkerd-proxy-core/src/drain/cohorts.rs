//! Watches in groups, which leave one after the other.

use tokio::sync::watch;

/// The number of groups.
pub(super) const COHORTS: usize = 16;

/// The watches of a drain in [`COHORTS`] groups of about the same size. A group leaves when its sender is dropped; dropping
/// `Cohorts` lets all groups leave. A drain that has ended has no senders: a watch that joins then leaves at once.
#[derive(Debug, Default)]
pub(super) struct Cohorts {
    /// `None` before the first watch joins, and after the group has left.
    senders: [Option<watch::Sender<()>>; COHORTS],
    /// The group that the next watch joins.
    next: usize,
    /// The group that leaves next, once groups leave.
    leaves: Option<usize>,
    /// The number of watches that ever joined.
    joined: u64,
    is_open: bool,
}

impl Cohorts {
    /// Groups that watches can join.
    pub(super) fn open() -> Self {
        Self {
            is_open: true,
            ..Self::default()
        }
    }

    /// Adds a watch: to the groups in turn or, once groups leave, to the group that leaves last.
    pub(super) fn join(&mut self) -> watch::Receiver<()> {
        self.joined += 1;
        if !self.is_open {
            return watch::channel(()).1;
        }
        let group = match self.leaves {
            Some(leaves) => (leaves + COHORTS - 1) % COHORTS,
            None => self.next,
        };
        self.next = (group + 1) % COHORTS;
        let sender = self.senders[group].get_or_insert_with(|| watch::channel(()).0);
        sender.subscribe()
    }

    /// Lets the next group leave. Watches can join it again.
    pub(super) fn leave_next(&mut self) {
        let leaves = self.leaves.unwrap_or(0);
        self.senders[leaves] = None;
        self.leaves = Some((leaves + 1) % COHORTS);
    }

    /// The number of watches that ever joined.
    pub(super) fn joined(&self) -> u64 {
        self.joined
    }
}
