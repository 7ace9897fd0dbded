//! Counters, gauges and histograms that cost a plain addition.
//!
//! A [`Family`] holds the series of one name. [`Family::get`] returns a handle with its own storage: **a handle
//! belongs to one thread**, the only one that adds to it, so an addition is a load and a store. A scrape sums a series'
//! handles, or takes their maximum ([`MaxGauge`], [`LatestGauge`]). A series is removed when its last handle was dropped longer
//! ago than the retention; its sum is kept until then.
//! A scrape is rendered piece by piece ([`Document`]): a thread that asks for a handle waits for one piece at most. Every family
//! has a limit; beyond it counters and histograms count in one series whose labels are all `other`, gauges are not shown, and
//! `proxy_metrics_series_refused_total` counts them.

mod document;
mod escape;
mod exposition;
mod family;
mod figures;
mod format;
mod gauge;
mod histogram;
mod label;
mod label_set;
mod native;
mod overflow;
mod primitive;
mod protobuf;
mod registry;
mod series;

pub use document::Document;
pub use exposition::Exposition;
pub use family::Family;
pub use figures::{BYTES, HistogramBounds, HistogramUnit, LATENCY_MS};
pub use format::{ExpositionFormat, MetricKind};
pub use gauge::{Gauge, GaugeRule, LatestGauge, MaxGauge};
pub use histogram::{Histogram, HistogramParams};
pub use label::{Labels, is_plain};
pub use label_set::{AddLabels, LabelSet};
pub use primitive::{Aggregation, Counter, Metric};
pub use registry::{FamilySize, Registry, RegistryStyle};
