//! A name and its series.

use super::{LabelSet, Metric};
use indexmap::IndexMap;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// All series of one metric. Copies share them.
pub struct Family<M: Metric>(Arc<Inner<M>>);

struct Inner<M: Metric> {
    params: M::Params,
    limit: usize,
    refused: Arc<AtomicU64>,
    series: Mutex<IndexMap<LabelSet, Series<M>>>,
}

struct Series<M: Metric> {
    /// What handles that are gone had counted.
    past: M::Sum,
    handles: Vec<M>,
    orphaned: Option<Instant>,
}

impl<M: Metric> Family<M> {
    pub(super) fn new(params: M::Params, limit: usize, refused: Arc<AtomicU64>) -> Self {
        Self(Arc::new(Inner {
            params,
            limit,
            refused,
            series: Mutex::default(),
        }))
    }

    /// A handle of the series with these labels, for the calling thread alone.
    ///
    /// Not for the hot path: it takes a lock. When the family is at its limit the handle counts, but nothing shows it.
    pub fn get(&self, labels: impl Into<LabelSet>) -> M {
        let labels = labels.into();
        let handle = M::new(self.0.params);
        let mut all = self.0.series.lock();
        if all.len() >= self.0.limit && !all.contains_key(&labels) {
            self.0.refused.fetch_add(1, Relaxed);
            return handle;
        }
        let series = all.entry(labels).or_insert_with(Series::new);
        series.orphaned = None;
        series.push(handle.clone());
        handle
    }

    pub(super) fn len(&self) -> usize {
        self.0.series.lock().len()
    }

    /// Drops the series that have had no owner for `retain`.
    pub(super) fn sweep(&self, retain: Duration, now: Instant) {
        let mut all = self.0.series.lock();
        all.retain(|_, series| {
            series.fold();
            if !series.handles.is_empty() {
                return true;
            }
            let since = *series.orphaned.get_or_insert(now);
            now.saturating_duration_since(since) < retain
        });
        // Endpoints leave by the thousand.
        if all.capacity() > SPARE && all.len() < all.capacity() / 4 {
            let room = all.len() * 2;
            all.shrink_to(room);
        }
    }

    /// Writes series, beginning with the one at `from`, until `out` is of the size `until`. Returns where to go on.
    pub(super) fn write(
        &self,
        name: &str,
        from: usize,
        until: usize,
        out: &mut String,
    ) -> Option<usize> {
        let all = self.0.series.lock();
        let mut sum = M::Sum::default();
        for index in from.. {
            let (labels, series) = all.get_index(index)?;
            if out.len() >= until {
                return Some(index);
            }
            series.sum_to(&mut sum);
            M::write(&sum, self.0.params, name, labels.as_str(), out);
        }
        None
    }
}

impl<M: Metric> Clone for Family<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: Metric> fmt::Debug for Family<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("series", &self.len())
            .finish()
    }
}

impl<M: Metric> Series<M> {
    fn new() -> Self {
        Self {
            past: M::Sum::default(),
            handles: Vec::new(),
            orphaned: None,
        }
    }

    /// Adds a handle. Most series have one only; where there are many, each is looked at a few times and not once for
    /// each that is added after it.
    fn push(&mut self, handle: M) {
        if self.handles.len() == self.handles.capacity() {
            self.fold();
            self.handles.reserve_exact(self.handles.len().max(1));
        }
        self.handles.push(handle);
    }

    /// Moves what dropped handles had counted into the past, so that handles do not pile up.
    fn fold(&mut self) {
        let past = &mut self.past;
        self.handles.retain(|handle| {
            let live = !handle.is_last();
            if !live {
                handle.add_to(past);
            }
            live
        });
    }

    fn sum_to(&self, sum: &mut M::Sum) {
        sum.clone_from(&self.past);
        for handle in &self.handles {
            handle.add_to(sum);
        }
    }
}

/// Room that is not given back.
const SPARE: usize = 1024;
