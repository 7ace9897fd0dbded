//! Failures of a start, with other programs in the place of the proxy. `examples/own-test` starts the proxy itself.

use super::*;
use crate::LookupKind;
use serde_json::json;

fn proxy(program: &str) -> ProxyBuilder {
    ProxyBuilder::new(([127, 0, 0, 1], 8086).into()).program(program)
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named_with_the_fix() {
    let error = proxy("no-such-proxy").start().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no-such-proxy"), "{text}");
    assert!(text.contains("PATH"), "{text}");
}

#[tokio::test]
async fn a_proxy_that_ends_at_its_start_shows_its_output() {
    let failing = proxy("sh").arguments(&["-c", "echo port is taken >&2; exit 64"]);
    let error = failing.clone().start().await.unwrap_err();
    assert!(matches!(error, ProxyError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("port is taken"), "{error}");

    let exit = failing.run().await.unwrap();
    assert_eq!(exit.status.code(), Some(64));
    assert_eq!(exit.output, "port is taken\n");
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_says_nothing_is_given_up_and_the_level_of_the_log_is_named() {
    let silent = proxy("sleep").arguments(&["600"]);
    let error = silent.clone().start().await.unwrap_err();
    assert!(matches!(error, ProxyError::Late { .. }), "{error}");
    assert!(error.to_string().contains("LINKERD2_PROXY_LOG"), "{error}");

    let error = silent.run().await.unwrap_err();
    assert!(matches!(error, ProxyError::Late { .. }), "{error}");
}

#[tokio::test]
async fn an_admin_server_that_is_gone_is_told_with_the_output() {
    let announces = r#"for i in Admin Inbound Outbound; do echo "$i interface on 127.0.0.1:1"; done; exec sleep 600"#;
    let error = proxy("sh").arguments(&["-c", announces]).start().await;
    let error = error.unwrap_err();
    assert!(matches!(error, ProxyError::Admin { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("/ready") && text.contains("Outbound interface"),
        "{text}"
    );
}

#[tokio::test]
async fn a_line_without_an_address_is_shown() {
    let announces = "echo 'Admin interface on fire'; exec sleep 600";
    let error = proxy("sh").arguments(&["-c", announces]).start().await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("Admin interface on fire"), "{text}");
}

#[test]
fn look_ups_are_found_in_the_state_by_kind_and_target() {
    let state = json!({
        "discovery": {"destinations": [
            {"destination": "web:80", "freshness": {"generation": 3}, "endpoints": [{"addr": "10.0.0.2:1"}, {"addr": "10.0.0.1:1"}]},
            {"destination": "pending:80", "freshness": {"generation": 0}},
        ]},
        "policies": {"targets": [
            {"target": "web:80", "policy_freshness": {"generation": 4}, "profile_freshness": {"generation": 5}},
        ]},
        "server_policies": {"ports": [{"port": 8080, "freshness": {"generation": 6}}]},
    });
    for (kind, target, updates) in [
        (LookupKind::Destination, "web:80", Some(3)),
        (LookupKind::Policy, "web:80", Some(4)),
        (LookupKind::Profile, "web:80", Some(5)),
        (LookupKind::Server, ":8080", Some(6)),
        (LookupKind::Server, ":80", None),
        (LookupKind::Policy, "web", None),
    ] {
        assert_eq!(
            known::updates(&state, kind, target),
            updates,
            "{kind:?} {target}"
        );
    }
    let sorted = ["10.0.0.1:1", "10.0.0.2:1"].map(str::to_owned).to_vec();
    assert_eq!(known::endpoints(&state, "web:80"), Some(sorted));
    assert_eq!(known::endpoints(&state, "pending:80"), None);
    assert_eq!(known::targets(&state, LookupKind::Server), [":8080"]);
}
