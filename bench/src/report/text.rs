//! The table for people; also valid Markdown for documents.

use super::{Row, Table};
use crate::{measure::Metric, stats::Summary};
use std::collections::BTreeSet;

/// One workload as a table of subjects.
pub fn text(table: &Table) -> String {
    let metrics: BTreeSet<Metric> = table
        .rows
        .iter()
        .flat_map(|row| row.metrics.keys().copied())
        .collect();
    let mut head = vec![format!("{}: {}", table.workload, table.about)];
    for metric in &metrics {
        head.push(metric.title().to_owned());
        head.extend(derived(*metric).map(|(title, _)| title.to_owned()));
    }
    let mut lines = vec![head];
    for row in table.rows.iter().filter(|row| !row.metrics.is_empty()) {
        let mut cells = vec![row.subject.clone()];
        for metric in &metrics {
            cells.push(row.metrics.get(metric).map_or_else(none, summary));
            cells.extend(derived(*metric).map(|(_, cell)| cell(table, row, *metric)));
        }
        lines.push(cells);
    }
    align(&lines)
}

/// A column after that of a metric: its title and its content.
type Derived = (&'static str, fn(&Table, &Row, Metric) -> String);

fn derived(metric: Metric) -> Option<Derived> {
    match metric {
        Metric::CpuPerRequest | Metric::CpuPerMessage | Metric::CpuPerGigabyte => {
            let ratio = |table: &Table, row: &Row, metric| {
                let ratio = table.ratio(row, metric);
                ratio.map_or_else(none, |ratio| format!("{ratio:.2}"))
            };
            Some(("x floor", ratio))
        }
        metric if metric.is_latency() => {
            let added = |table: &Table, row: &Row, metric| {
                let added = table.added(row, metric);
                added.map_or_else(none, |added| format!("{added:+.0}"))
            };
            Some(("added", added))
        }
        _ => None,
    }
}

/// The median, with the range of all rounds.
fn summary(summary: &Summary) -> String {
    let digits = match summary.median {
        0.0..100.0 => 1,
        _ => 0,
    };
    let Summary {
        median, min, max, ..
    } = summary;
    match summary.samples.len() {
        1 => format!("{median:.digits$}"),
        _ => format!("{median:.digits$} ({min:.digits$}-{max:.digits$})"),
    }
}

fn none() -> String {
    "-".to_owned()
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            match column {
                0 => text.push_str(&format!("| {cell:<width$} |")),
                _ => text.push_str(&format!(" {cell:>width$} |")),
            }
        }
        text.push('\n');
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(*width);
                match column {
                    0 => text.push_str(&format!("|-{dashes}-|")),
                    _ => text.push_str(&format!("-{dashes}:|")),
                }
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn the_table_shows_medians_spreads_and_ratios() {
        let text = text(&table());
        let expected = "\
| h1: HTTP/1.1 |   CPU us/request | x floor | p50 us | added |
|--------------|-----------------:|--------:|-------:|------:|
| direct       |                - |       - |    100 |    +0 |
| forwarder    |  10.0 (9.0-11.0) |    1.00 |    200 |  +100 |
| ours         | 12.0 (11.5-12.5) |    1.20 |    250 |  +150 |
";
        assert_eq!(text, expected);
    }
}
