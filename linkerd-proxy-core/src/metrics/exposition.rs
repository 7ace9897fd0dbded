//! The document of a scrape, in each of its formats.

use super::{
    figures::{HistogramFigures, HistogramUnit},
    format::{ExpositionFormat, MetricKind},
    label::Labels,
    protobuf::ProtobufFamily,
};
use std::{fmt::Display, io::Write};

/// A document being written.
#[derive(Debug)]
pub struct Exposition<'a> {
    out: &'a mut Vec<u8>,
    format: ExpositionFormat,
    /// The message being built.
    family: Option<ProtobufFamily>,
}

impl<'a> Exposition<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, format: ExpositionFormat) -> Self {
        Self {
            out,
            format,
            family: None,
        }
    }

    /// Begins a family. `name` is the name of its samples.
    pub fn head(&mut self, kind: MetricKind, name: &str, help: impl Display) {
        if self.format == ExpositionFormat::Protobuf {
            self.close();
            self.family = Some(ProtobufFamily::new(kind, name, help.to_string()));
            return;
        }
        let base = name.strip_suffix("_total");
        let is_open = self.format == ExpositionFormat::OpenMetrics;
        let (title, kind) = match kind {
            // OpenMetrics allows counters only with `_total`.
            MetricKind::Counter if is_open => {
                (base.unwrap_or(name), base.map_or("unknown", |_| "counter"))
            }
            kind => (name, kind.name()),
        };
        writeln!(self.out, "# HELP {title} {help}\n# TYPE {title} {kind}").expect(INFALLIBLE);
        let unit = UNITS.iter().find(|unit| {
            let stem = title.strip_suffix(**unit);
            stem.is_some_and(|stem| stem.ends_with('_'))
        });
        if let (true, Some(unit)) = (is_open, unit) {
            writeln!(self.out, "# UNIT {title} {unit}").expect(INFALLIBLE);
        }
    }

    /// Writes a sample whose value is formatted.
    pub fn sample(&mut self, name: &str, labels: &Labels, value: impl Display) {
        self.value(name, labels.as_str(), Formatted(value.to_string()));
    }

    /// Writes a family of one sample without labels, unless the value is unknown.
    pub fn single(
        &mut self,
        kind: MetricKind,
        name: &str,
        help: &str,
        value: Option<impl Display>,
    ) {
        if let Some(value) = value {
            self.head(kind, name, format_args!("{help}."));
            self.sample(name, &Labels::new(), value);
        }
    }

    /// Writes the end of the document.
    pub(super) fn end(&mut self) {
        match self.format {
            ExpositionFormat::Text | ExpositionFormat::OpenMetrics => self.push("# EOF\n"),
            ExpositionFormat::Protobuf => {}
        }
    }

    /// Ends the piece, and with it the message, which must be whole.
    pub(super) fn close(&mut self) {
        if let Some(family) = self.family.take() {
            family.write(self.out);
        }
    }

    /// The length of the piece.
    pub(super) fn len(&self) -> usize {
        self.out.len() + self.family.as_ref().map_or(0, ProtobufFamily::len)
    }

    /// Whether a family that continues in this piece needs its head again.
    pub(super) fn lacks_head(&self) -> bool {
        self.format == ExpositionFormat::Protobuf && self.family.is_none()
    }

    /// Writes a series of one value.
    pub(super) fn value(&mut self, name: &str, labels: &str, value: impl Value) {
        match &mut self.family {
            Some(family) => family.push_value(name, labels, value.to_f64()),
            None => self.line(name, "", labels, value),
        }
    }

    /// Writes a histogram.
    pub(super) fn histogram(&mut self, name: &str, labels: &str, figures: &HistogramFigures<'_>) {
        if let Some(family) = &mut self.family {
            return family.push_histogram(name, labels, figures);
        }
        self.buckets(name, labels, figures.buckets());
        self.line(name, "_count", labels, figures.count());
        match figures.unit() {
            HistogramUnit::Milliseconds => self.line(name, "_sum", labels, figures.sum() as u64),
            HistogramUnit::Seconds | HistogramUnit::Bytes => {
                self.line(name, "_sum", labels, figures.sum());
            }
        }
    }

    /// Writes one line.
    fn line(&mut self, name: &str, suffix: &str, labels: &str, value: impl Value) {
        // Pushed piece by piece: a scrape of 10,000 endpoints has 346,000 lines, and formatting each took most of its
        // time.
        self.push(name);
        self.push(suffix);
        if !labels.is_empty() {
            self.push("{");
            self.push(labels);
            self.push("}");
        }
        self.push(" ");
        value.push_to(self.out);
        self.push("\n");
    }

    /// Writes the lines of buckets: upper bounds, each with the number of values up to it.
    fn buckets<'b>(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (&'b str, u64)>,
    ) {
        let before = self.out.len();
        self.push(name);
        self.push("_bucket{");
        self.push(labels);
        self.push(if labels.is_empty() { "le=\"" } else { ",le=\"" });
        // All lines begin with the same text, which is written once and copied.
        let beginning = before..self.out.len();
        let lines = buckets.size_hint().0;
        self.out.reserve(lines * (beginning.len() + MOST_OF_BUCKET));
        for (index, (le, count)) in buckets.enumerate() {
            if index > 0 {
                self.out.extend_from_within(beginning.clone());
            }
            self.push(le);
            let is_whole = || le.bytes().all(|c| c.is_ascii_digit());
            if self.format == ExpositionFormat::OpenMetrics && is_whole() {
                self.push(".0");
            }
            self.push("\"} ");
            count.push_to(self.out);
            self.push("\n");
        }
    }

    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// The value of a sample.
pub(super) trait Value {
    fn push_to(self, out: &mut Vec<u8>);
    fn to_f64(&self) -> f64;
}

impl Value for u64 {
    fn push_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }

    fn to_f64(&self) -> f64 {
        *self as f64
    }
}

impl Value for i64 {
    fn push_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }

    fn to_f64(&self) -> f64 {
        *self as f64
    }
}

impl Value for f64 {
    /// Writes the value with a decimal point.
    fn push_to(self, out: &mut Vec<u8>) {
        write!(out, "{self:?}").expect(INFALLIBLE);
    }

    fn to_f64(&self) -> f64 {
        *self
    }
}

/// The text of a number.
struct Formatted(String);

impl Value for Formatted {
    fn push_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }

    fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

/// Units that names may end with.
const UNITS: [&str; 3] = ["seconds", "bytes", "ms"];

/// Longer than most bounds with their counts, in bytes.
const MOST_OF_BUCKET: usize = 24;

const INFALLIBLE: &str = "a vector takes all";

#[cfg(test)]
mod tests {
    use super::*;

    /// The written text.
    fn written(format: ExpositionFormat, write: impl FnOnce(&mut Exposition<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Exposition::new(&mut out, format));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_carry_the_name_that_the_format_asks_for() {
        for (kind, name, text, open) in [
            (
                MetricKind::Counter,
                "a_total",
                "a_total counter",
                "a counter",
            ),
            (
                MetricKind::Counter,
                "a_bytes_total",
                "a_bytes_total counter",
                "a_bytes counter\n# UNIT a_bytes bytes",
            ),
            (MetricKind::Counter, "a", "a counter", "a unknown"),
            (
                MetricKind::Gauge,
                "a_seconds",
                "a_seconds gauge",
                "a_seconds gauge\n# UNIT a_seconds seconds",
            ),
            (
                MetricKind::Gauge,
                "seconds",
                "seconds gauge",
                "seconds gauge",
            ),
        ] {
            let head = |format| written(format, |out| out.head(kind, name, "X"));
            let plain = format!("# HELP {name} X\n# TYPE {text}\n");
            assert_eq!(head(ExpositionFormat::Text), plain);
            let title = open.split(' ').next().unwrap();
            let expected = format!("# HELP {title} X\n# TYPE {open}\n");
            assert_eq!(head(ExpositionFormat::OpenMetrics), expected);
        }
    }

    #[test]
    fn bounds_of_buckets_have_a_point_in_openmetrics() {
        for (format, le, expected) in [
            (ExpositionFormat::Text, "5", "5"),
            (ExpositionFormat::OpenMetrics, "5", "5.0"),
            (ExpositionFormat::OpenMetrics, "0.5", "0.5"),
            (ExpositionFormat::OpenMetrics, "+Inf", "+Inf"),
        ] {
            let buckets = [(le, 1), (le, 2)].into_iter();
            let text = written(format, |out| out.buckets("x", "", buckets));
            let line = |count| format!("x_bucket{{le=\"{expected}\"}} {count}\n");
            assert_eq!(text, line(1) + &line(2));
        }
    }

    #[test]
    fn buckets_have_the_labels_of_their_series_before_the_bound() {
        let buckets = [("1", 0), ("+Inf", 7)].into_iter();
        let text = written(ExpositionFormat::Text, |out| {
            out.value("y", "", 1_u64);
            out.buckets("x", "a=\"b\"", buckets);
        });
        let expected = "y 1\nx_bucket{a=\"b\",le=\"1\"} 0\nx_bucket{a=\"b\",le=\"+Inf\"} 7\n";
        assert_eq!(text, expected);
    }
}
