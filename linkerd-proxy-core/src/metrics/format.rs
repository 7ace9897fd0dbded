//! The formats of a scrape, and the types of metrics in them.

/// The format of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus text 0.0.4: `TYPE` and `HELP` carry the name of the samples.
    Text,
    /// OpenMetrics 1.0.0: `TYPE` and `HELP` carry the name without `_total`, the unit has a line, and bucket bounds
    /// have a decimal point.
    OpenMetrics,
    /// Messages `io.prometheus.client.MetricFamily`, each after its length: the only format of native histograms.
    /// A large family comes in several messages.
    Protobuf,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Counts upwards.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

impl MetricKind {
    /// The name of the kind in the text formats.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}
