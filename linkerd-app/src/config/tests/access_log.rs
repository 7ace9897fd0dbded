//! The access log's variables.

use super::*;
use crate::config::{
    AccessLogFormat::{self, Apache, Full, Json, Text},
    AccessLogOutput::{self, File, Stderr, Stdout},
};

#[test]
fn forms_and_outputs() {
    use grammar::{access_log, access_log_format, access_log_output, header_names};
    for (text, format) in [("Apache", Apache), ("json", Json)] {
        assert_eq!(access_log(text), Ok(format));
    }
    for (text, format) in [("full", Full), ("text", Text)] {
        assert_eq!(access_log_format(text), Ok(format));
    }
    for text in ["", "common", "full"] {
        assert!(access_log(text).is_err(), "{text}");
    }
    for text in ["", "json", "FULL"] {
        assert!(access_log_format(text).is_err(), "{text}");
    }
    for (text, output) in [
        ("stdout", Stdout),
        ("stderr", Stderr),
        ("/var/log/access", File("/var/log/access".into())),
    ] {
        assert_eq!(access_log_output(text), Ok(output));
    }
    assert!(access_log_output("access.log").is_err());
    let names = header_names("X-Request-Id, x-tenant").unwrap();
    assert_eq!(names, ["x-request-id", "x-tenant"]);
    assert!(header_names("a b").is_err() && header_names(&"a,".repeat(16)).is_err());
}

#[test]
fn ours_is_in_place_of_the_incumbents_and_does_not_depend_on_the_log() {
    let format = |vars: &[(&str, &str)]| load(vars).access_log.map(|log| log.format);
    let own = ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "full");
    for (vars, expected) in [
        (&[("ACCESS_LOG", "json")][..], Some(Json)),
        (&[("ACCESS_LOG", "json"), ("LOG", "off")], None),
        (&[("ACCESS_LOG", "json"), own], Some(Full)),
        (&[("LOG", "off"), own], Some(Full)),
        (&[("LINKERD_PROXY_ACCESS_LOG_OUTPUT", "stdout")], None),
    ] {
        assert_eq!(format(vars), expected, "{vars:?}");
    }
}

#[test]
fn settings_reach_their_fields_and_secret_headers_are_left_out() {
    let loaded = loaded(&[
        ("LINKERD_PROXY_ACCESS_LOG_FORMAT", "text"),
        ("LINKERD_PROXY_ACCESS_LOG_OUTPUT", "/tmp/access"),
        ("LINKERD_PROXY_ACCESS_LOG_SAMPLE", "0"),
        ("LINKERD_PROXY_ACCESS_LOG_QUERY", "1"),
        ("LINKERD_PROXY_ACCESS_LOG_HEADERS", "x-tenant,Authorization"),
    ]);
    let log = loaded.config.access_log.unwrap();
    assert_eq!(
        (log.format, log.output, log.sample, log.query),
        (
            AccessLogFormat::Text,
            AccessLogOutput::File("/tmp/access".into()),
            0.0,
            true
        )
    );
    assert_eq!(log.headers, ["x-tenant"]);
    let warning = "LINKERD_PROXY_ACCESS_LOG_HEADERS: the header authorization is never logged";
    assert!(loaded.warnings.iter().any(|text| text == warning));
}
