//! A metric family: one name and its series.

use super::{Exposition, LabelSet, Labels, Metric, series::Series};
use indexmap::{IndexMap, map::Entry};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// All series of one metric. Clones share them.
pub struct Family<M: Metric>(Arc<FamilyState<M>>);

struct FamilyState<M: Metric> {
    params: M::Params,
    limit: usize,
    refused: Arc<AtomicU64>,
    begun: Instant,
    series: Mutex<IndexMap<LabelSet, Series<M>>>,
}

impl<M: Metric> Family<M> {
    pub(super) fn new(params: M::Params, limit: usize, refused: Arc<AtomicU64>) -> Self {
        Self(Arc::new(FamilyState {
            params,
            limit,
            refused,
            begun: Instant::now(),
            series: Mutex::default(),
        }))
    }

    /// A handle of the series with these labels, for the calling thread alone.
    /// Not for the hot path: takes a lock. A handle beyond the family's limit counts, but is not shown.
    pub fn get(&self, labels: impl Into<LabelSet>) -> M {
        let labels = labels.into();
        let handle = M::new(self.0.params);
        let mut all = self.0.series.lock();
        if all.len() >= self.0.limit && !all.contains_key(&labels) {
            self.0.refused.fetch_add(1, Relaxed);
            return handle;
        }
        match all.entry(labels) {
            Entry::Occupied(mut series) => series.get_mut().push(handle.clone()),
            Entry::Vacant(place) => {
                place.insert(Series::One(handle.clone()));
            }
        }
        handle
    }

    pub(super) fn len(&self) -> usize {
        self.0.series.lock().len()
    }

    /// Drops series without a handle for `retain`.
    pub(super) fn sweep(&self, retain: Duration, now: Instant) {
        let mut all = self.0.series.lock();
        let now = tenths(now.saturating_duration_since(self.0.begun));
        let retain = tenths(retain);
        all.retain(|_, series| match series.orphaned_since(now) {
            Some(since) => now.saturating_sub(since) < retain,
            None => true,
        });
        // Endpoints may leave by the thousand.
        if all.capacity() > SPARE && all.len() < all.capacity() / 4 {
            let room = all.len() * 2;
            all.shrink_to(room);
        }
    }

    /// Writes series, beginning with the one at `from`, until `out` has `until` bytes, and at least one series. Returns the
    /// position to continue at.
    pub(super) fn write(
        &self,
        name: &str,
        from: usize,
        until: usize,
        out: &mut Exposition<'_>,
    ) -> Option<usize> {
        let all = self.0.series.lock();
        let (mut sum, mut text) = (M::Sum::default(), Labels::new());
        for index in from.. {
            let (labels, series) = all.get_index(index)?;
            if out.len() >= until && index > from {
                return Some(index);
            }
            series.sum_to(&mut sum);
            text.clear();
            text = labels.add_to(text);
            M::write(&sum, self.0.params, name, text.as_str(), out);
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

/// Converts to tenths of a second, which last for 13 years in four bytes.
fn tenths(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis() / 100).unwrap_or(u32::MAX)
}

/// Capacity that is never freed.
const SPARE: usize = 1024;
