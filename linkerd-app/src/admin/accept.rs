//! The format of metrics that a scraper prefers.

use http::{HeaderMap, header};
use linkerd_proxy_core::metrics::ExpositionFormat;

/// The format that `Accept` prefers. OpenMetrics has to be named: `*/*` means Prometheus text.
pub(super) fn format(headers: &HeaderMap) -> ExpositionFormat {
    let (mut open, mut text) = (0, 0);
    let values = headers.get_all(header::ACCEPT).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut quality = 1000;
        let mut version = None;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => quality = thousandths(value.trim()),
                "version" => version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        let best = match (&*kind, version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => &mut open,
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => &mut text,
            _ => continue,
        };
        *best = quality.max(*best);
    }
    match open > 0 && open >= text {
        true => ExpositionFormat::OpenMetrics,
        false => ExpositionFormat::Text,
    }
}

/// A weight of RFC 9110, 12.4.2, in thousandths; 0 if invalid.
fn thousandths(weight: &str) -> u16 {
    let weight = weight.parse::<f32>().unwrap_or(0.0);
    // The cast saturates.
    (weight.clamp(0.0, 1.0) * 1000.0) as u16
}

/// The content type of OpenMetrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_of_the_greatest_weight() {
        for (accept, open) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("text/html,*/*;q=0.8", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; Version=1.0.0", true),
            ("application/openmetrics-text; version=\"1.0.0\"", true),
            ("application/openmetrics-text; version=0.0.1", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=nonsense", false),
            ("application/openmetrics-text;q=0.5,text/plain;q=0.6", false),
            ("application/openmetrics-text;q=0.6,text/plain;q=0.5", true),
            ("text/plain,application/openmetrics-text", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
                true,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let expected = match open {
                true => ExpositionFormat::OpenMetrics,
                false => ExpositionFormat::Text,
            };
            assert_eq!(format(&headers), expected, "{accept}");
        }
        assert_eq!(format(&HeaderMap::new()), ExpositionFormat::Text);
    }
}
