//! The table of endpoints as text.

use super::screen::cut;
use std::{fmt::Write, time::Duration};

/// A line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) service: String,
    pub(super) endpoint: String,
    pub(super) rate: f64,
    /// Requests of the period, whose share of all rows is shown.
    pub(super) requests: u64,
    /// A percentage.
    pub(super) success: Option<f64>,
    pub(super) p50: Option<Duration>,
    pub(super) p99: Option<Duration>,
    pub(super) estimate_ms: Option<f64>,
    pub(super) in_flight: Option<u64>,
    pub(super) state: String,
}

/// The table. Unknown figures are dashes. If it is too wide, its titles are short, and the service, which the names of
/// endpoints contain, is left out; if it still is too wide, the end is cut.
pub(super) fn table(rows: &[Row], columns: usize) -> String {
    let full = lines(rows, &TITLES, 0);
    let width = full.lines().map(|line| line.chars().count()).max();
    if width <= Some(columns) {
        return full;
    }
    let short = lines(rows, &SHORT_TITLES, 1);
    short
        .lines()
        .map(|line| cut(line, columns) + "\n")
        .collect()
}

/// The table without its first columns.
fn lines(rows: &[Row], titles: &[&str; COLUMNS], skip: usize) -> String {
    let all = rows.iter().map(|row| row.requests).sum();
    let cells: Vec<_> = rows.iter().map(|row| row.cells(all)).collect();
    let widths: [usize; COLUMNS] = std::array::from_fn(|n| {
        let cells = cells.iter().map(|cells| cells[n].chars().count());
        cells.chain([titles[n].len()]).max().unwrap_or(0)
    });
    let mut out = String::new();
    line(&mut out, &titles.map(str::to_owned), &widths, skip);
    for cells in &cells {
        line(&mut out, cells, &widths, skip);
    }
    out
}

/// A summary in one line, for output to a file.
pub(super) fn summary(at: Duration, rate: f64, success: Option<f64>, rows: &[Row]) -> String {
    let mut out = format!(
        "{:>3}s  {rate:.0} req/s  {} ok",
        at.as_secs(),
        percent(success)
    );
    for row in rows {
        let name = row.endpoint.split(' ').next().unwrap_or_default();
        write!(out, "  {name} {:.0}/s", row.rate).expect("writing to a string does not fail");
    }
    out
}

impl Row {
    /// The cells; `all` are the requests of all rows.
    fn cells(&self, all: u64) -> [String; COLUMNS] {
        let share = (all > 0).then(|| self.requests as f64 * 100.0 / all as f64);
        let ms = |time: Option<Duration>| number(time.map(|time| time.as_secs_f64() * 1000.0));
        [
            self.service.clone(),
            self.endpoint.clone(),
            format!("{:.1}", self.rate),
            share.map_or_else(dash, |share| format!("{share:.0}%")),
            percent(self.success),
            ms(self.p50),
            ms(self.p99),
            number(self.estimate_ms),
            self.in_flight.map_or_else(dash, |count| count.to_string()),
            self.state.clone(),
        ]
    }
}

fn line(out: &mut String, cells: &[String; COLUMNS], widths: &[usize; COLUMNS], skip: usize) {
    let start = out.len();
    for (n, (cell, width)) in cells.iter().zip(widths).enumerate().skip(skip) {
        match LEFT.contains(&n) {
            true => write!(out, "{cell:<width$}  "),
            false => write!(out, "{cell:>width$}  "),
        }
        .expect("writing to a string does not fail");
    }
    out.truncate(start + out[start..].trim_end().len());
    out.push('\n');
}

fn percent(share: Option<f64>) -> String {
    match share {
        // One failure of many must stay visible.
        Some(share) if share < 100.0 => format!("{:.1}%", (share * 10.0).floor() / 10.0),
        Some(_) => "100%".to_owned(),
        None => dash(),
    }
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(dash, |number| format!("{number:.1}"))
}

fn dash() -> String {
    "-".to_owned()
}

const COLUMNS: usize = 10;

const TITLES: [&str; COLUMNS] = [
    "service",
    "endpoint",
    "req/s",
    "share",
    "success",
    "p50 ms",
    "p99 ms",
    "load est. ms",
    "in flight",
    "state",
];

const SHORT_TITLES: [&str; COLUMNS] = [
    "", "endpoint", "req/s", "share", "ok", "p50", "p99", "load", "busy", "state",
];

/// Left-aligned columns, which contain words; numbers are right-aligned.
const LEFT: [usize; 3] = [0, 1, 9];

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let fast = Row {
            service: "web".into(),
            endpoint: "web-1 127.0.0.1:7001".into(),
            rate: 24.0,
            requests: 240,
            success: Some(100.0),
            p50: Some(Duration::from_micros(3_100)),
            p99: Some(Duration::from_micros(4_250)),
            estimate_ms: Some(3.34),
            in_flight: Some(1),
            state: "ready".into(),
        };
        let slow = Row {
            endpoint: "web-3 127.0.0.1:17003".into(),
            rate: 1.0,
            requests: 10,
            success: Some(99.96),
            p50: Some(Duration::from_millis(60)),
            p99: Some(Duration::from_millis(1061)),
            estimate_ms: Some(58.0),
            state: "backing off".into(),
            ..fast.clone()
        };
        let none = Row {
            service: "web".into(),
            endpoint: "nobody".into(),
            ..Row::default()
        };
        vec![fast, slow, none]
    }

    #[test]
    fn a_table() {
        let expected = "\
service  endpoint               req/s  share  success  p50 ms  p99 ms  load est. ms  in flight  state
web      web-1 127.0.0.1:7001    24.0    96%     100%     3.1     4.2           3.3          1  ready
web      web-3 127.0.0.1:17003    1.0     4%    99.9%    60.0  1061.0          58.0          1  backing off
web      nobody                   0.0     0%        -       -       -             -          -
";
        assert_eq!(table(&rows(), 110), expected);
    }

    #[test]
    fn an_empty_table_has_titles() {
        let expected = "service  endpoint  req/s  share  success  p50 ms  p99 ms  load est. ms  in flight  state\n";
        assert_eq!(table(&[], 110), expected);
    }

    #[test]
    fn a_summary() {
        let line = summary(Duration::from_secs(7), 25.0, Some(99.96), &rows());
        assert_eq!(
            line,
            "  7s  25 req/s  99.9% ok  web-1 24/s  web-3 1/s  nobody 0/s"
        );
    }

    #[test]
    fn a_table_for_80_columns() {
        let mut rows = rows();
        rows[1].state = "backing off: connection refused".into();
        let expected = "\
endpoint               req/s  share     ok   p50     p99  load  busy  state
web-1 127.0.0.1:7001    24.0    96%   100%   3.1     4.2   3.3     1  ready
web-3 127.0.0.1:17003    1.0     4%  99.9%  60.0  1061.0  58.0     1  backing o…
nobody                   0.0     0%      -     -       -     -     -
";
        assert_eq!(table(&rows, 80), expected);
    }
}
