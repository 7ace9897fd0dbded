//! The results as a table, as JSON, and as a chart.

mod svg;
mod text;

pub use svg::svg;
pub use text::text;

use crate::{
    error::{Error, Result},
    measure::Metric,
    proxies::{DIRECT, FLOOR, RELAY},
    stats::Summary,
};
use serde::Serialize;
use std::{collections::BTreeMap, fs};

/// A whole comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of the load in seconds.
    pub seconds: u64,
    /// One table for each workload.
    pub tables: Vec<Table>,
}

/// The machine of a comparison.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The processor.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
}

/// All subjects under one workload.
#[derive(Debug, Serialize)]
pub struct Table {
    /// The name of the workload.
    pub workload: String,
    /// The description of the workload.
    pub about: String,
    /// One row for each subject.
    pub rows: Vec<Row>,
}

/// A subject under one workload.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The name of the subject.
    pub subject: String,
    /// The results; empty if the subject does not support the workload.
    pub metrics: BTreeMap<Metric, Summary>,
}

impl Report {
    /// A report of this machine.
    pub fn new(rounds: usize, seconds: u64, tables: Vec<Table>) -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let cpu = model.and_then(|line| line.split_once(": "));
        Self {
            machine: Machine {
                cpu: cpu.map_or_else(String::new, |(_, name)| name.to_owned()),
                kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            },
            rounds,
            seconds,
            tables,
        }
    }

    /// All results, with each sample.
    pub fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Other(error.to_string()))
    }
}

impl Table {
    /// The ratio of a subject's median to the floor's: the forwarder, or the relay for protocols other than HTTP.
    fn ratio(&self, row: &Row, metric: Metric) -> Option<f64> {
        let floor = match metric {
            Metric::CpuPerGigabyte => RELAY,
            _ => FLOOR,
        };
        self.relative(floor, row, metric, |own, floor| own / floor)
    }

    /// The difference between a subject and no proxy.
    fn added(&self, row: &Row, metric: Metric) -> Option<f64> {
        self.relative(DIRECT, row, metric, |own, direct| own - direct)
    }

    fn relative(
        &self,
        to: &str,
        row: &Row,
        metric: Metric,
        relate: impl Fn(f64, f64) -> f64,
    ) -> Option<f64> {
        let base = self.rows.iter().find(|row| row.subject == to)?;
        let base = base.metrics.get(&metric)?;
        let own = row.metrics.get(&metric)?;
        Some(relate(own.median, base.median))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, metrics: &[(Metric, &[f64])]) -> Row {
        let summary =
            |(metric, samples): &(Metric, &[f64])| Some((*metric, Summary::new(samples.to_vec())?));
        Row {
            subject: subject.to_owned(),
            metrics: metrics.iter().filter_map(summary).collect(),
        }
    }

    /// A small comparison.
    pub(super) fn table() -> Table {
        use Metric::{CpuPerRequest, P50};
        Table {
            workload: "h1".to_owned(),
            about: "HTTP/1.1".to_owned(),
            rows: vec![
                row("direct", &[(P50, &[100.0])]),
                row(
                    "forwarder",
                    &[(CpuPerRequest, &[10.0, 9.0, 11.0]), (P50, &[200.0])],
                ),
                row(
                    "ours",
                    &[(CpuPerRequest, &[12.0, 11.5, 12.5]), (P50, &[250.0])],
                ),
                row("nginx", &[]),
            ],
        }
    }

    #[test]
    fn subjects_are_compared_with_the_floor_and_with_no_proxy() {
        let table = table();
        let ours = &table.rows[2];
        assert_eq!(table.ratio(ours, Metric::CpuPerRequest), Some(1.2));
        assert_eq!(table.added(ours, Metric::P50), Some(150.0));
        assert_eq!(table.ratio(ours, Metric::FirstByte), None);
    }

    #[test]
    fn json_names_what_it_holds() {
        let report = Report::new(3, 2, vec![table()]);
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let ours = &json["tables"][0]["rows"][2];
        assert_eq!(ours["subject"], "ours");
        assert_eq!(ours["metrics"]["cpu_per_request"]["median"], 12.0);
        assert_eq!(json["rounds"], 3);
    }
}
