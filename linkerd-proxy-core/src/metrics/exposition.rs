//! The text of a scrape, in either format.

use super::Labels;
use std::fmt::{self, Display, Write};

/// The format of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus text 0.0.4: `TYPE` and `HELP` carry the name of the samples.
    Text,
    /// OpenMetrics 1.0.0: `TYPE` and `HELP` carry the name without `_total`, the unit has a line, and bucket bounds
    /// have a decimal point.
    OpenMetrics,
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
    /// Its name in both formats.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A document being written.
#[derive(Debug)]
pub struct Exposition<'a> {
    out: &'a mut String,
    format: ExpositionFormat,
}

impl<'a> Exposition<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut String, format: ExpositionFormat) -> Self {
        Self { out, format }
    }

    /// Writes the lines before the samples of a family. `name` is that of a counter's samples.
    pub fn head(&mut self, kind: MetricKind, name: &str, help: impl Display) {
        let base = name.strip_suffix("_total");
        let (title, kind) = match (self.format, kind) {
            (ExpositionFormat::Text, kind) => (name, kind.name()),
            // OpenMetrics allows no other names of counters.
            (ExpositionFormat::OpenMetrics, MetricKind::Counter) => {
                (base.unwrap_or(name), base.map_or("unknown", |_| "counter"))
            }
            (ExpositionFormat::OpenMetrics, kind) => (name, kind.name()),
        };
        writeln!(self.out, "# HELP {title} {help}\n# TYPE {title} {kind}").expect(INFALLIBLE);
        let unit = UNITS.iter().find(|unit| {
            let stem = title.strip_suffix(**unit);
            stem.is_some_and(|stem| stem.ends_with('_'))
        });
        if let (ExpositionFormat::OpenMetrics, Some(unit)) = (self.format, unit) {
            writeln!(self.out, "# UNIT {title} {unit}").expect(INFALLIBLE);
        }
    }

    /// Writes a sample whose value is formatted.
    pub fn sample(&mut self, name: &str, labels: &Labels, value: impl Display) {
        self.line(name, "", labels.as_str(), None, format_args!("{value}"));
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
        self.out.push_str("# EOF\n");
    }

    /// The length of the text.
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Writes one sample.
    pub(super) fn line(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &str,
        le: Option<&str>,
        value: impl Value,
    ) {
        // Pushed piece by piece: a scrape of 10,000 endpoints has a hundred thousand lines, and formatting each took
        // most of its time.
        let out = &mut *self.out;
        out.push_str(name);
        out.push_str(suffix);
        if !labels.is_empty() || le.is_some() {
            out.push('{');
            out.push_str(labels);
            if let Some(le) = le {
                out.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
                out.push_str(le);
                if self.format == ExpositionFormat::OpenMetrics
                    && le.bytes().all(|c| c.is_ascii_digit())
                {
                    out.push_str(".0");
                }
                out.push('"');
            }
            out.push('}');
        }
        out.push(' ');
        value.push_to(out);
        out.push('\n');
    }
}

/// The value of a sample.
pub(super) trait Value {
    fn push_to(self, out: &mut String);
}

impl Value for u64 {
    fn push_to(self, out: &mut String) {
        out.push_str(itoa::Buffer::new().format(self));
    }
}

impl Value for i64 {
    fn push_to(self, out: &mut String) {
        out.push_str(itoa::Buffer::new().format(self));
    }
}

impl Value for fmt::Arguments<'_> {
    fn push_to(self, out: &mut String) {
        out.write_fmt(self)
            .expect("writing to a string does not fail");
    }
}

/// Units that names may end with.
const UNITS: [&str; 3] = ["seconds", "bytes", "ms"];

const INFALLIBLE: &str = "writing to a string does not fail";

#[cfg(test)]
mod tests {
    use super::*;

    fn head(format: ExpositionFormat, kind: MetricKind, name: &str) -> String {
        let mut out = String::new();
        Exposition::new(&mut out, format).head(kind, name, "X");
        out
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
            let plain = format!("# HELP {name} X\n# TYPE {text}\n");
            assert_eq!(head(ExpositionFormat::Text, kind, name), plain);
            let title = open.split(' ').next().unwrap();
            let expected = format!("# HELP {title} X\n# TYPE {open}\n");
            assert_eq!(head(ExpositionFormat::OpenMetrics, kind, name), expected);
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
            let mut out = String::new();
            Exposition::new(&mut out, format).line("x", "_bucket", "", Some(le), 1_u64);
            assert_eq!(out, format!("x_bucket{{le=\"{expected}\"}} 1\n"));
        }
    }
}
