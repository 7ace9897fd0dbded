use super::*;
use std::collections::HashSet;

#[test]
fn labels_are_unique() {
    let labels: HashSet<_> = ALL.iter().map(|reason| reason.label()).collect();
    assert_eq!(labels.len(), ALL.len());
}

#[test]
fn every_row_is_valid_and_says_what_to_look_at() {
    for reason in ALL {
        let row = reason.row();
        assert!(http::StatusCode::from_u16(row.status).is_ok(), "{reason:?}");
        assert!(row.grpc <= 16, "{reason:?}");
        assert!(
            http::HeaderValue::from_static(row.text).to_str().is_ok(),
            "{reason:?}"
        );
        assert!(row.hint.len() > 20, "{reason:?} needs a hint");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test")]
fn the_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reasons.md");
    let rendered = render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &rendered).unwrap();
    }
    for reason in ALL {
        let heading = format!("\n## {}\n", reason.label());
        assert!(rendered.contains(&heading), "a log line links to {heading}");
    }
    let current = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        current == rendered,
        "docs/reasons.md differs from the table: run `UPDATE_DOCS=1 cargo test -p linkerd-proxy-core reason`"
    );
}
