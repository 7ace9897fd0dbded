//! Output for people: the documentation and the effective configuration.

use super::*;

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test")]
fn docs_are_those_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/env.md");
    let rendered = docs::render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &rendered).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == rendered,
        "docs/env.md differs from the table; render it anew with: UPDATE_DOCS=1 cargo test -p linkerd-app docs"
    );
}

#[test]
fn docs_tables_have_as_many_cells_in_each_row() {
    for line in docs::render()
        .lines()
        .filter(|line| line.starts_with("| `"))
    {
        assert_eq!(line.matches('|').count(), 6, "{line}");
    }
}

#[test]
fn names_are_declared_once() {
    for (i, variable) in VARIABLES.iter().enumerate() {
        assert!(
            VARIABLES[..i]
                .iter()
                .all(|other| other.name != variable.name),
            "{}",
            variable.name
        );
        assert!(
            variable.doc.iter().all(|line| !line.trim().is_empty()),
            "{}",
            variable.name
        );
    }
}

fn printed(vars: &[(&str, &str)]) -> Vec<String> {
    effective_text(&loaded(vars).effective)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_listener_that_does_not_count_is_not_shown() {
    for vars in [
        &[("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:1")][..],
        &[
            ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:1"),
            ("OUTBOUND_LISTEN_ADDR", "127.0.0.1:2"),
        ],
    ] {
        let shown = cells(&printed(vars), "OUTBOUND_LISTEN_ADDR");
        assert_eq!(shown, ("127.0.0.1:1".to_owned(), "derived".to_owned()));
    }
}

/// Value and source of a variable in a table.
fn cells(lines: &[String], name: &str) -> (String, String) {
    let line = lines
        .iter()
        .find(|line| line.split(' ').next() == Some(&full(name)))
        .unwrap();
    let (rest, source) = line.rsplit_once(' ').unwrap();
    (
        rest.split_once(' ').unwrap().1.trim().to_owned(),
        source.to_owned(),
    )
}

#[test]
fn the_effective_configuration_tells_values_and_where_they_come_from() {
    let lines = printed(&[
        ("CORES", "2"),
        ("CORES_MAX", "none"),
        ("INGRESS_MODE", "true"),
        ("OUTBOUND_CONNECT_EXP_BACKOFF_MIN", "1s"),
        ("OUTBOUND_CONNECT_EXP_BACKOFF_MAX", "2s"),
        ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "2s"),
        ("INBOUND_PORTS_REQUIRE_TLS", "1"),
    ]);
    for (name, value, source) in [
        ("CORES", "2", "environment"),
        ("CORES_MIN", "2", "derived"),
        ("CORES_MAX", "-", "default"),
        ("INGRESS_MODE", "true", "environment"),
        ("OUTBOUND_DISABLE_INFORMATIONAL_HEADERS", "true", "derived"),
        ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4140", "derived"),
        ("OUTBOUND_CONNECT_EXP_BACKOFF_MIN", "1s", "environment"),
        ("OUTBOUND_CONNECT_EXP_BACKOFF_JITTER", "0", "derived"),
        ("INBOUND_CONNECT_EXP_BACKOFF_JITTER", "0.1", "default"),
        ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "-", "default"),
        ("INBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", "10000", "derived"),
        ("INBOUND_PORTS", "\"\"", "default"),
        ("POLICY_WORKLOAD", "{\"ns\":\"a\"}\\n", "environment"),
    ] {
        assert_eq!(
            cells(&lines, name),
            (value.to_owned(), source.to_owned()),
            "{name}"
        );
    }
    assert!(
        lines.iter().all(|line| !line.contains("REQUIRE_TLS")),
        "what does nothing is left out"
    );
}

#[test]
fn the_effective_configuration_is_an_aligned_table_with_short_lines() {
    let pem = "-----BEGIN CERTIFICATE-----\n".repeat(100);
    let anchors = ("IDENTITY_TRUST_ANCHORS", &*pem);
    let context = ("DESTINATION_CONTEXT", "\u{1b}[31m");
    let rest = IDENTITY.iter().filter(|(name, _)| *name != anchors.0);
    let vars: Vec<_> = rest.copied().chain([anchors, context]).collect();
    let lines = printed(&vars);
    let widths: Vec<_> = lines.iter().map(|line| line.rfind(' ').unwrap()).collect();
    assert!(
        widths
            .iter()
            .all(|width| *width == widths[0] && *width < 200),
        "{widths:?}"
    );
    let (anchors, _) = cells(&lines, "IDENTITY_TRUST_ANCHORS");
    assert!(
        anchors.starts_with("-----BEGIN CERTIFICATE-----\\n")
            && anchors.ends_with("... (2800 bytes)"),
        "{anchors}"
    );
    assert_eq!(cells(&lines, "DESTINATION_CONTEXT").0, "\\u{1b}[31m");
}
