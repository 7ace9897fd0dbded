//! Series beyond the limit of a family, counted together.

use super::{LabelSet, Labels, Metric};
use std::thread::{self, ThreadId};

/// The series in which a full family counts: its labels are those of the first series that it refused, all with the value `other`.
///
/// - **Bounds**: one for each family, with one handle for each thread, which all stacks of the thread share.
pub(super) struct Overflow<M> {
    labels: LabelSet,
    handles: Vec<(ThreadId, M)>,
    /// When it was first seen without an owner, in the family's time.
    idle_since: Option<u32>,
}

impl<M: Metric> Overflow<M> {
    /// A series with these labels, which are those of [`Self::labels_of`].
    pub(super) fn new(labels: LabelSet) -> Self {
        Self {
            labels,
            handles: Vec::new(),
            idle_since: None,
        }
    }

    /// The label names of a series, each with the value `other`.
    pub(super) fn labels_of(refused: &LabelSet) -> LabelSet {
        let refused = refused.to_labels();
        let pairs = refused.pairs();
        let labels = pairs.fold(Labels::new(), |all, (name, _)| all.with(name, OTHER));
        labels.into()
    }

    pub(super) fn labels(&self) -> &LabelSet {
        &self.labels
    }

    /// The handle of the calling thread.
    pub(super) fn handle(&mut self, params: M::Params) -> M {
        let thread = thread::current().id();
        self.idle_since = None;
        if let Some((_, handle)) = self.handles.iter().find(|(owner, _)| *owner == thread) {
            return handle.clone();
        }
        let handle = M::new(params);
        self.handles.push((thread, handle.clone()));
        handle
    }

    /// The sum of all handles.
    pub(super) fn sum_to(&self, sum: &mut M::Sum) {
        sum.clone_from(&M::Sum::default());
        for (_, handle) in &self.handles {
            handle.add_to(sum);
        }
    }

    /// Whether nothing has used it for `retain`.
    pub(super) fn is_over(&mut self, retain: u32, now: u32) -> bool {
        if self.handles.iter().any(|(_, handle)| !handle.is_last()) {
            self.idle_since = None;
            return false;
        }
        now.saturating_sub(*self.idle_since.get_or_insert(now)) >= retain
    }
}

/// The value of each label.
const OTHER: &str = "other";
