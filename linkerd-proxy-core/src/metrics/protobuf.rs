//! The protobuf format of a scrape: messages of the package `io.prometheus.client`.

use super::{
    figures::HistogramFigures,
    format::MetricKind,
    label::Labels,
    native::{SCHEMA, native_buckets, zero_threshold},
};
use prost::{
    Message,
    encoding::{encode_varint, message},
};

/// A family whose message is being built.
#[derive(Debug)]
pub(super) struct ProtobufFamily {
    name: String,
    kind: MetricKind,
    /// The message so far, without its length.
    message: Vec<u8>,
}

impl ProtobufFamily {
    pub(super) fn new(kind: MetricKind, name: &str, help: String) -> Self {
        let head = MetricFamilyHead {
            name: name.to_owned(),
            help,
            kind: match kind {
                MetricKind::Counter => 0,
                MetricKind::Gauge => 1,
                MetricKind::Histogram => 4,
            },
        };
        Self {
            name: head.name.clone(),
            kind,
            message: head.encode_to_vec(),
        }
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.message.len()
    }

    /// Adds a counter or a gauge.
    pub(super) fn push_value(&mut self, name: &str, labels: &str, value: f64) {
        let value = Some(ValueMessage { value });
        let metric = match self.kind {
            MetricKind::Gauge => MetricMessage {
                gauge: value,
                ..MetricMessage::default()
            },
            _ => MetricMessage {
                counter: value,
                ..MetricMessage::default()
            },
        };
        self.push(name, labels, metric);
    }

    /// Adds a histogram, with its native buckets if it has any.
    pub(super) fn push_histogram(
        &mut self,
        name: &str,
        labels: &str,
        figures: &HistogramFigures<'_>,
    ) {
        let metric = MetricMessage {
            histogram: Some(histogram(figures)),
            ..MetricMessage::default()
        };
        self.push(name, labels, metric);
    }

    fn push(&mut self, name: &str, labels: &str, mut metric: MetricMessage) {
        // The family's first series may have been added after its head was skipped.
        if name != self.name {
            return;
        }
        let pairs = Labels::from_text(labels);
        let pairs = pairs.pairs().map(|(name, value)| LabelPair {
            name: name.to_owned(),
            value,
        });
        metric.labels = pairs.collect();
        message::encode(METRIC_TAG, &metric, &mut self.message);
    }

    /// Appends the message after its length.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        encode_varint(self.message.len() as u64, out);
        out.extend_from_slice(&self.message);
    }
}

fn histogram(figures: &HistogramFigures<'_>) -> HistogramMessage {
    // The bucket without a bound is the count.
    let bounded = figures
        .buckets()
        .filter_map(|(le, count)| Some((le.parse().ok()?, count)))
        .filter(|(bound, _)| f64::is_finite(*bound));
    let mut message = HistogramMessage {
        count: figures.count(),
        sum: figures.sum(),
        buckets: bounded
            .map(|(upper_bound, count)| BucketMessage { count, upper_bound })
            .collect(),
        ..HistogramMessage::default()
    };
    if let Some(cells) = figures.native() {
        let native = native_buckets(figures.unit(), cells);
        message.schema = SCHEMA;
        message.zero_threshold = zero_threshold(figures.unit());
        message.zero_count = cells[0];
        let span = |(offset, length)| SpanMessage { offset, length };
        message.spans = native.spans.into_iter().map(span).collect();
        message.deltas = native.deltas;
    }
    message
}

/// `MetricFamily` without its metrics, which are appended one by one.
#[derive(Clone, PartialEq, Message)]
struct MetricFamilyHead {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
}

/// The tag of the metrics of a `MetricFamily`.
const METRIC_TAG: u32 = 4;

/// `Metric`
#[derive(Clone, PartialEq, Message)]
struct MetricMessage {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<ValueMessage>,
    #[prost(message, optional, tag = "3")]
    counter: Option<ValueMessage>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

/// `LabelPair`
#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `Gauge` and `Counter`
#[derive(Clone, PartialEq, Message)]
struct ValueMessage {
    #[prost(double, tag = "1")]
    value: f64,
}

/// `Histogram`
#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<BucketMessage>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<SpanMessage>,
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

/// `Bucket`
#[derive(Clone, PartialEq, Message)]
struct BucketMessage {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

/// `BucketSpan`
#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ExpositionFormat, LATENCY_MS, Labels, Registry, RegistryStyle};
    use std::time::Duration;
    use tokio::time::Instant;

    /// `MetricFamily`, as a scraper reads it.
    #[derive(Clone, PartialEq, Message)]
    struct MetricFamily {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, tag = "3")]
        kind: i32,
        #[prost(message, repeated, tag = "4")]
        metrics: Vec<MetricMessage>,
    }

    fn scrape(registry: &Registry) -> Vec<MetricFamily> {
        let now = Instant::now();
        let bytes = registry.render_as(ExpositionFormat::Protobuf, Duration::MAX, now);
        let mut rest = &bytes[..];
        let mut families = Vec::new();
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        families
    }

    fn label(name: &str, value: &str) -> LabelPair {
        let (name, value) = (name.to_owned(), value.to_owned());
        LabelPair { name, value }
    }

    #[test]
    fn counters_gauges_and_figures_of_collectors() {
        let registry = Registry::new();
        let counter = registry.counter(RegistryStyle::OpenMetrics, "a_total", "A");
        let gauge = registry.gauge(RegistryStyle::OpenMetrics, "b", "B");
        let labels = Labels::new().with("x", "1\"\n").with("y", "");
        counter.get(labels).add(7);
        let three = gauge.get(Labels::new());
        three.set(-3);
        registry.collect(|out| out.single(MetricKind::Gauge, "c", "C", Some("0.25")));
        let [a, b, c] = &scrape(&registry)[..] else {
            panic!("three families");
        };
        assert_eq!((&*a.name, a.kind), ("a_total", 0));
        assert_eq!(a.metrics[0].labels, [label("x", "1\"\n"), label("y", "")]);
        assert_eq!(a.metrics[0].counter, Some(ValueMessage { value: 7.0 }));
        assert_eq!((&*b.name, b.kind), ("b", 1));
        assert_eq!(b.metrics[0].gauge, Some(ValueMessage { value: -3.0 }));
        assert_eq!(c.metrics[0].gauge, Some(ValueMessage { value: 0.25 }));
    }

    #[test]
    fn histograms_have_their_buckets_and_native_ones() {
        let registry = Registry::with_native_histograms();
        let family = registry.histogram(RegistryStyle::Legacy, "l_ms", "L", LATENCY_MS);
        let latency = family.get(Labels::new());
        for ms in [2, 2, 4000] {
            latency.observe_duration(Duration::from_millis(ms));
        }
        latency.observe(0);
        let families = scrape(&registry);
        let message = families[0].metrics[0].histogram.as_ref().unwrap();
        assert_eq!((message.count, message.sum), (4, 4004.0));
        let at = |bound| {
            let bucket = message.buckets.iter().find(|b| b.upper_bound == bound);
            bucket.map(|bucket| bucket.count)
        };
        assert_eq!(
            (at(1.0), at(2.0), at(50_000.0)),
            (Some(1), Some(3), Some(4))
        );
        assert_eq!(message.buckets.len(), LATENCY_MS.buckets.len());
        assert_eq!((message.schema, message.zero_count), (3, 1));
        assert_eq!(message.zero_threshold, 0.0078125);
        // 2 is the upper bound of bucket 8, and 4000 is in the bucket that ends at 4096, of number 96.
        let spans: Vec<_> = message.spans.iter().map(|s| (s.offset, s.length)).collect();
        assert_eq!(spans, [(8, 1), (87, 1)]);
        assert_eq!(message.deltas, [2, -1]);
    }

    #[test]
    fn a_family_of_many_series_comes_in_several_messages() {
        let registry = Registry::new();
        let family = registry.counter(RegistryStyle::OpenMetrics, "a_total", "A");
        for n in 0..5000 {
            family.get(Labels::new().with("n", n)).add(n);
        }
        let families = scrape(&registry);
        assert!(families.len() > 1);
        assert!(families.iter().all(|family| family.name == "a_total"));
        let series = families.iter().flat_map(|family| &family.metrics);
        let values: Vec<_> = series
            .map(|metric| metric.counter.as_ref().unwrap().value)
            .collect();
        let expected: Vec<_> = (0..5000).map(f64::from).collect();
        assert_eq!(values, expected);
    }
}
