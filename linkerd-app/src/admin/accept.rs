//! The format of metrics that a scraper prefers.

use http::{HeaderMap, header};
use linkerd_proxy_core::metrics::ExpositionFormat;

/// The format that `Accept` prefers. OpenMetrics and protobuf have to be named: `*/*` means Prometheus text. Protobuf is
/// for native histograms alone.
pub(super) fn format(headers: &HeaderMap, has_native_histograms: bool) -> ExpositionFormat {
    let (mut text, mut open, mut protobuf) = (0, 0, 0);
    let values = headers.get_all(header::ACCEPT).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')) {
        let range = MediaRange::parse(range);
        let best = match (&*range.kind, range.version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => &mut open,
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => &mut text,
            ("application/vnd.google.protobuf", _) if has_native_histograms && range.is_family => {
                &mut protobuf
            }
            _ => continue,
        };
        *best = range.quality.max(*best);
    }
    match () {
        () if protobuf > 0 && protobuf >= open && protobuf >= text => ExpositionFormat::Protobuf,
        () if open > 0 && open >= text => ExpositionFormat::OpenMetrics,
        () => ExpositionFormat::Text,
    }
}

/// The `Content-Type` of a format; `None` for that of all texts.
pub(super) fn content_type(format: ExpositionFormat) -> Option<&'static str> {
    match format {
        ExpositionFormat::Text => None,
        ExpositionFormat::OpenMetrics => Some(OPEN_METRICS),
        ExpositionFormat::Protobuf => Some(PROTOBUF),
    }
}

/// A part of `Accept`.
struct MediaRange<'a> {
    /// In lower case.
    kind: String,
    /// In thousandths.
    quality: u16,
    version: Option<&'a str>,
    /// Whether it names the protobuf message of this format, each after its length.
    is_family: bool,
}

impl<'a> MediaRange<'a> {
    fn parse(range: &'a str) -> Self {
        let mut parts = range.split(';').map(str::trim);
        let mut parsed = Self {
            kind: parts.next().unwrap_or_default().to_ascii_lowercase(),
            quality: 1000,
            version: None,
            is_family: false,
        };
        let (mut message, mut encoding) = ("", "");
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim();
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => parsed.quality = thousandths(value),
                "version" => parsed.version = Some(value.trim_matches('"')),
                "proto" => message = value.trim_matches('"'),
                "encoding" => encoding = value.trim_matches('"'),
                _ => {}
            }
        }
        parsed.is_family =
            message == "io.prometheus.client.MetricFamily" && encoding == "delimited";
        parsed
    }
}

/// A weight of RFC 9110, 12.4.2, in thousandths; 0 if invalid.
fn thousandths(weight: &str) -> u16 {
    let weight = weight.parse::<f32>().unwrap_or(0.0);
    // The cast saturates.
    (weight.clamp(0.0, 1.0) * 1000.0) as u16
}

/// The content type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The content type of the protobuf format.
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &str, has_native_histograms: bool) -> ExpositionFormat {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        format(&headers, has_native_histograms)
    }

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
            let expected = match open {
                true => ExpositionFormat::OpenMetrics,
                false => ExpositionFormat::Text,
            };
            for has_native_histograms in [false, true] {
                assert_eq!(chosen(accept, has_native_histograms), expected, "{accept}");
            }
        }
        assert_eq!(format(&HeaderMap::new(), true), ExpositionFormat::Text);
    }

    #[test]
    fn protobuf_is_for_those_who_name_its_message_while_there_are_native_histograms() {
        // As Prometheus asks with native histograms.
        let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
            encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(chosen(prometheus, true), ExpositionFormat::Protobuf);
        assert_eq!(chosen(prometheus, false), ExpositionFormat::OpenMetrics);
        for other in [
            "application/vnd.google.protobuf",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "application/vnd.google.protobuf;proto=Other;encoding=delimited",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
             encoding=delimited;q=0.3,text/plain;q=0.5",
        ] {
            assert_eq!(chosen(other, true), ExpositionFormat::Text, "{other}");
        }
    }
}
