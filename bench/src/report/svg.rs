//! The chart: CPU time of a request, a bar for each subject.

use super::{Report, Table};
use crate::{measure::Metric, proxies::OURS};
use std::fmt::Write;

/// Draws the measured workloads of the README. Readable on light and dark backgrounds.
pub fn svg(report: &Report) -> String {
    let tables: Vec<&Table> = CHARTED
        .iter()
        .filter_map(|name| report.tables.iter().find(|table| table.workload == *name))
        .collect();
    let mut body = String::new();
    let mut y = MARGIN;
    for table in tables {
        y = chart(&mut body, table, y);
    }
    let height = y + MARGIN / 2;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#808080\">\n\
         <title>CPU time of a request</title>\n{body}</svg>\n"
    )
}

fn chart(body: &mut String, table: &Table, mut y: u32) -> u32 {
    let bars: Vec<_> = table
        .rows
        .iter()
        .filter_map(|row| Some((row, row.metrics.get(&Metric::CpuPerRequest)?.median)))
        .collect();
    let most = bars.iter().map(|(_, value)| *value).fold(1e-9, f64::max);
    line(
        body,
        format_args!(
            "<text x=\"{MARGIN}\" y=\"{y}\" font-weight=\"bold\">{}: CPU microseconds for each request</text>",
            escape(&table.about)
        ),
    );
    y += 10;
    for (row, value) in bars {
        let width = value / most * f64::from(WIDTH - LEFT - RIGHT);
        let colour = if row.subject == OURS {
            "#2f6fde"
        } else {
            "#9aa5b1"
        };
        let (text, end) = (y + 15, f64::from(LEFT) + width + 6.0);
        let ratio = table.ratio(row, Metric::CpuPerRequest);
        let ratio = ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2} x)"));
        line(
            body,
            format_args!(
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"20\" rx=\"2\" fill=\"{colour}\"/>\
                 <text x=\"{end:.1}\" y=\"{text}\">{value:.1}{ratio}</text>",
                LEFT - 8,
                escape(&row.subject)
            ),
        );
        y += 26;
    }
    y + 24
}

fn line(body: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(body, "{text}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The most telling workloads.
const CHARTED: &[&str] = &["h1", "h2"];
const WIDTH: u32 = 720;
/// Start of the bars, after the names.
const LEFT: u32 = 110;
/// Room for the numbers after the longest bar.
const RIGHT: u32 = 110;
const MARGIN: u32 = 24;

#[cfg(test)]
mod tests {
    use super::super::tests::table;
    use super::*;

    #[test]
    fn each_measured_subject_has_a_bar() {
        let svg = svg(&Report::new(1, 1, vec![table()]));
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains("12.0 (1.20 x)"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
