//! A metric family: one name and its series.

use super::{Exposition, LabelSet, Labels, Metric, MetricKind, overflow::Overflow, series::Series};
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
    series: Mutex<AllSeries<M>>,
}

struct AllSeries<M: Metric> {
    known: IndexMap<LabelSet, Series<M>>,
    /// Present while series beyond the limit are in use.
    overflow: Option<Box<Overflow<M>>>,
}

impl<M: Metric> Family<M> {
    pub(super) fn new(params: M::Params, limit: usize, refused: Arc<AtomicU64>) -> Self {
        Self(Arc::new(FamilyState {
            params,
            limit,
            refused,
            begun: Instant::now(),
            series: Mutex::new(AllSeries {
                known: IndexMap::default(),
                overflow: None,
            }),
        }))
    }

    /// A handle of the series with these labels, for the calling thread alone.
    ///
    /// Not for the hot path: takes a lock. A handle beyond the family's limit counts in the series `other`, which all such handles of
    /// a thread share; a gauge counts, but is not shown, as gauges of different series have no common value.
    pub fn get(&self, labels: impl Into<LabelSet>) -> M {
        let (labels, params) = (labels.into(), self.0.params);
        let mut all = self.0.series.lock();
        if all.known.len() >= self.0.limit && !all.known.contains_key(&labels) {
            self.0.refused.fetch_add(1, Relaxed);
            return all.refused(&labels, params);
        }
        let AllSeries { known, overflow } = &mut *all;
        match known.entry(labels) {
            Entry::Occupied(mut series) => {
                let handle = M::new(params);
                series.get_mut().push(handle.clone());
                handle
            }
            Entry::Vacant(place) => match overflow {
                // Two series of the same labels would make a scraper refuse the document.
                Some(overflow) if overflow.labels() == place.key() => overflow.handle(params),
                _ => {
                    let handle = M::new(params);
                    place.insert(Series::One(handle.clone()));
                    handle
                }
            },
        }
    }

    /// The number of series, without the one of those beyond the limit.
    pub(super) fn len(&self) -> usize {
        self.0.series.lock().known.len()
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        let all = self.0.series.lock();
        all.known.is_empty() && all.overflow.is_none()
    }

    /// Drops series without a handle for `retain`.
    pub(super) fn sweep(&self, retain: Duration, now: Instant) {
        let mut all = self.0.series.lock();
        let now = tenths(now.saturating_duration_since(self.0.begun));
        let retain = tenths(retain);
        if let Some(overflow) = &mut all.overflow
            && overflow.is_over(retain, now)
        {
            all.overflow = None;
        }
        let all = &mut all.known;
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
        let count = all.known.len() + usize::from(all.overflow.is_some());
        for index in from..count {
            if out.len() >= until && index > from {
                return Some(index);
            }
            let labels = match (all.known.get_index(index), &all.overflow) {
                (Some((labels, series)), _) => {
                    series.sum_to(&mut sum);
                    labels
                }
                (None, Some(overflow)) => {
                    overflow.sum_to(&mut sum);
                    overflow.labels()
                }
                (None, None) => return None,
            };
            text.clear();
            text = labels.add_to(text);
            M::write(&sum, self.0.params, name, text.as_str(), out);
        }
        None
    }
}

impl<M: Metric> AllSeries<M> {
    /// A handle for a series beyond the limit.
    fn refused(&mut self, labels: &LabelSet, params: M::Params) -> M {
        if M::KIND == MetricKind::Gauge {
            return M::new(params);
        }
        let overflow = match &mut self.overflow {
            Some(overflow) => overflow,
            none => {
                let other = Overflow::<M>::labels_of(labels);
                if let Some(series) = self.known.get_mut(&other) {
                    let handle = M::new(params);
                    series.push(handle.clone());
                    return handle;
                }
                none.insert(Box::new(Overflow::new(other)))
            }
        };
        overflow.handle(params)
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
