//! The identity of the proxy.

use super::*;
use std::time::Duration;

/// A complete identity and more, which may replace parts of it.
fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    IDENTITY.iter().chain(more).copied().collect()
}

#[test]
fn all_parts_give_an_identity() {
    let identity = load(IDENTITY).identity.expect("it is complete");
    let name = "default.a.serviceaccount.identity.linkerd.cluster.local";
    assert_eq!(identity.local.identity.as_str(), name);
    assert_eq!(&*identity.local.server_name, name);
    assert_eq!(identity.trust_anchors, "anchors");
    assert_eq!(identity.directory.to_str(), Some("/identity"));
    assert_eq!(identity.token_file.to_str(), Some("/token"));
    assert!(identity.controller.server_tls().is_some());
    let secs = Duration::from_secs;
    assert_eq!(identity.refresh.min, secs(10));
    assert_eq!(identity.refresh.max, secs(24 * 3600));
    assert_eq!(load(&[("IDENTITY_MIN_REFRESH", "1s")]).identity, None);
    let refresh = [
        ("IDENTITY_MIN_REFRESH", "1s"),
        ("IDENTITY_MAX_REFRESH", "2s"),
    ];
    let identity = load(&with(&refresh)).identity;
    let refresh = identity.expect("it is complete").refresh;
    assert_eq!((refresh.min, refresh.max), (secs(1), secs(2)));
}

#[test]
fn what_is_missing_is_told_at_once() {
    let errors = refused(&[("IDENTITY_DIR", "/identity")]);
    assert_eq!(
        messages(&errors),
        [
            "LINKERD2_PROXY_IDENTITY_LOCAL_NAME, LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS, \
             LINKERD2_PROXY_IDENTITY_TOKEN_FILE, LINKERD2_PROXY_IDENTITY_SVC_ADDR must be set: without, the proxy \
             cannot have an identity, of which LINKERD2_PROXY_IDENTITY_DIR is set"
        ]
    );
    for (part, missing) in [
        ("IDENTITY_SERVER_ID", "IDENTITY_SERVER_NAME"),
        ("IDENTITY_SERVER_NAME", "IDENTITY_SERVER_ID"),
    ] {
        let errors = refused(&[(part, "web.test")]);
        let message = &messages(&errors)[0];
        assert!(message.starts_with(&full(missing)), "{message}");
    }
}

#[test]
fn the_identity_and_the_server_name_are_the_same() {
    let spiffe = [("IDENTITY_SERVER_ID", "spiffe://cluster.local/web")];
    assert_eq!(
        messages(&refused(&with(&spiffe))),
        ["linkerd identity requires a TLS Id and server name to be the same"]
    );
}

#[test]
fn the_bounds_of_the_refresh_are_in_order() {
    let bounds = [
        ("IDENTITY_MIN_REFRESH", "2s"),
        ("IDENTITY_MAX_REFRESH", "1s"),
    ];
    assert_eq!(
        messages(&refused(&with(&bounds))),
        ["LINKERD2_PROXY_IDENTITY_MIN_REFRESH must not be more than \
             LINKERD2_PROXY_IDENTITY_MAX_REFRESH"]
    );
}
