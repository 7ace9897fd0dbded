//! The list of families.

use super::{
    Aggregation, Counter, Exposition, Family, Gauge, Histogram, HistogramParams, Labels,
    LatestGauge, MaxGauge, Metric, MetricKind,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The incumbent's registry of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryStyle {
    /// The older registry.
    Legacy,
    /// The newer one, in which each `HELP` ends with a full stop.
    OpenMetrics,
}

/// All families of the process, in the order of the document.
#[derive(Clone, Default)]
pub struct Registry(Arc<RegistryState>);

#[derive(Default)]
struct RegistryState {
    families: Mutex<Vec<FamilyEntry>>,
    collectors: Mutex<Vec<Collector>>,
    /// Documents being written.
    documents: AtomicUsize,
    /// Whether histograms count in native buckets, too.
    native_histograms: bool,
}

type Collector = Box<dyn Fn(&mut Exposition<'_>) + Send>;

/// A declared family.
pub(super) struct FamilyEntry {
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    aggregation: Aggregation,
    pub(super) style: RegistryStyle,
    limit: usize,
    refused: Arc<AtomicU64>,
    family: Box<dyn AnyFamily>,
}

trait AnyFamily: Send {
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool;
    fn sweep(&self, retain: Duration, now: Instant);
    fn write(
        &self,
        name: &str,
        from: usize,
        until: usize,
        out: &mut Exposition<'_>,
    ) -> Option<usize>;
}

/// The size of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilySize {
    /// The name of the family's samples.
    pub name: &'static str,
    /// The number of series.
    pub series: usize,
    /// The most series.
    pub limit: usize,
    /// Requests for a series beyond the limit since the start.
    pub refused: u64,
}

impl<M: Metric + Send + Sync> AnyFamily for Family<M> {
    fn len(&self) -> usize {
        Family::len(self)
    }

    fn is_empty(&self) -> bool {
        Family::is_empty(self)
    }

    fn sweep(&self, retain: Duration, now: Instant) {
        Family::sweep(self, retain, now);
    }

    fn write(
        &self,
        name: &str,
        from: usize,
        until: usize,
        out: &mut Exposition<'_>,
    ) -> Option<usize> {
        Family::write(self, name, from, until, out)
    }
}

impl Registry {
    /// A registry without families.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry whose histograms count in native buckets, too.
    pub fn with_native_histograms() -> Self {
        Self(Arc::new(RegistryState {
            native_histograms: true,
            ..RegistryState::default()
        }))
    }

    /// Whether histograms count in native buckets.
    pub fn has_native_histograms(&self) -> bool {
        self.0.native_histograms
    }

    /// Declares a family. `name` is the name of its samples, `limit` its most series.
    pub fn family<M: Metric + Send + Sync + 'static>(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
        params: M::Params,
        limit: usize,
    ) -> Family<M> {
        let refused = Arc::new(AtomicU64::new(0));
        let family = Family::<M>::new(params, limit, refused.clone());
        self.0.families.lock().push(FamilyEntry {
            name,
            help,
            kind: M::KIND,
            aggregation: M::AGGREGATION,
            style,
            limit,
            refused,
            family: Box::new(family.clone()),
        });
        family
    }

    /// Declares a family of counters.
    pub fn counter(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
    ) -> Family<Counter> {
        self.family(style, name, help, (), SERIES_LIMIT)
    }

    /// Declares a family of gauges.
    pub fn gauge(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
    ) -> Family<Gauge> {
        self.family(style, name, help, (), SERIES_LIMIT)
    }

    /// Declares a family of gauges of which the greatest handle of a series counts.
    pub fn max_gauge(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
    ) -> Family<MaxGauge> {
        self.family(style, name, help, (), SERIES_LIMIT)
    }

    /// Declares a family of gauges of which the greatest handle of a series counts, even after it was dropped.
    pub fn latest_gauge(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
    ) -> Family<LatestGauge> {
        self.family(style, name, help, (), SERIES_LIMIT)
    }

    /// Declares a family of histograms.
    pub fn histogram(
        &self,
        style: RegistryStyle,
        name: &'static str,
        help: &'static str,
        bounds: &'static super::HistogramBounds,
    ) -> Family<Histogram> {
        let params = HistogramParams {
            bounds,
            is_native: self.0.native_histograms,
        };
        self.family(style, name, help, params, SERIES_LIMIT)
    }

    /// Adds a collector: renders text for each scrape, such as the figures of the process.
    pub fn collect(&self, collector: impl Fn(&mut Exposition<'_>) + Send + 'static) {
        self.0.collectors.lock().push(Box::new(collector));
    }

    /// Notes that a document is being written, and first drops series without an owner for `retain`.
    pub(super) fn begin_document(&self, retain: Duration, now: Instant) {
        // A document in progress continues by position: no series may move meanwhile.
        if self.0.documents.fetch_add(1, Relaxed) == 0 {
            for entry in self.families().iter() {
                entry.family.sweep(retain, now);
            }
        }
    }

    pub(super) fn families(&self) -> MutexGuard<'_, Vec<FamilyEntry>> {
        self.0.families.lock()
    }

    /// Writes the collectors' text and the registry's own families.
    pub(super) fn write_tail(&self, out: &mut Exposition<'_>) {
        self.write_refused(out);
        for collector in self.0.collectors.lock().iter() {
            collector(out);
        }
        out.end();
    }

    fn write_refused(&self, out: &mut Exposition<'_>) {
        let name = "proxy_metrics_series_refused_total";
        let families = self.families();
        let counts = families.iter().map(|entry| (entry.name, &entry.refused));
        let counts = counts.map(|(family, refused)| (family, refused.load(Relaxed)));
        let mut has_head = false;
        for (family, count) in counts.filter(|(_, count)| *count > 0) {
            if !std::mem::replace(&mut has_head, true) {
                let help = "Series that were refused because their family was full: its series other counts for them, unless they are gauges.";
                out.head(MetricKind::Counter, name, help);
            }
            out.sample(name, &Labels::new().with("family", family), count);
        }
    }

    /// Notes that a document was written or dropped.
    pub(super) fn end_document(&self) {
        self.0.documents.fetch_sub(1, Relaxed);
    }

    /// The size of each family.
    pub fn sizes(&self) -> Vec<FamilySize> {
        let families = self.families();
        let size = |entry: &FamilyEntry| FamilySize {
            name: entry.name,
            series: entry.family.len(),
            limit: entry.limit,
            refused: entry.refused.load(Relaxed),
        };
        families.iter().map(size).collect()
    }

    /// The name, type and help of each family, for the documentation.
    pub fn describe(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let families = self.families();
        let kind = |entry: &FamilyEntry| match entry.aggregation {
            Aggregation::Sum => entry.kind.name(),
            Aggregation::Maximum => "gauge (max)",
            Aggregation::Latest => "gauge (latest)",
        };
        families
            .iter()
            .map(|entry| (entry.name, kind(entry), entry.help))
            .collect()
    }
}

impl FamilyEntry {
    /// Writes the lines before the series, if there are any.
    pub(super) fn write_head(&self, out: &mut Exposition<'_>) {
        if self.family.is_empty() {
            return;
        }
        let stop = match self.style {
            RegistryStyle::Legacy => "",
            RegistryStyle::OpenMetrics => ".",
        };
        let help = self.help;
        out.head(self.kind, self.name, format_args!("{help}{stop}"));
    }

    /// Writes series, beginning with the one at `from`, until `out` has `until` bytes. Returns the position to continue
    /// at.
    pub(super) fn write(
        &self,
        from: usize,
        until: usize,
        out: &mut Exposition<'_>,
    ) -> Option<usize> {
        self.family.write(self.name, from, until, out)
    }
}

/// The most series of a family, unless declared otherwise. A pod with 1,000 endpoints and five outcomes each stays well
/// below it; a scan of addresses, or a header used as a label, does not.
const SERIES_LIMIT: usize = 20_000;

#[cfg(test)]
mod tests;
