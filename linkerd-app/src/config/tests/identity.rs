//! The identity of the proxy.

use super::*;
use linkerd_proxy_core::Backoff;
use std::time::Duration;

/// A complete identity and more, which may replace parts of it.
fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    IDENTITY.iter().chain(more).copied().collect()
}

fn certify_of(identity: IdentityConfig) -> CertifyConfig {
    match identity.issuer {
        IssuerConfig::Controller(certify) => *certify,
        IssuerConfig::Spire(spire) => panic!("{spire:?}"),
    }
}

#[test]
fn all_parts_give_an_identity() {
    let identity = load(IDENTITY).identity.expect("it is complete");
    let name = "default.a.serviceaccount.identity.linkerd.cluster.local";
    assert_eq!(identity.local.identity.as_str(), name);
    assert_eq!(&*identity.local.server_name, name);
    let anchors = AnchorsConfig::Pem("anchors".to_owned());
    assert_eq!(identity.trust_anchors, anchors);
    let certify = certify_of(identity);
    assert_eq!(certify.directory.to_str(), Some("/identity"));
    assert_eq!(certify.token_file.to_str(), Some("/token"));
    assert!(certify.controller.server_tls().is_some());
    let secs = Duration::from_secs;
    assert_eq!(certify.refresh.min, secs(10));
    assert_eq!(certify.refresh.max, secs(24 * 3600));
    assert_eq!(load(&[("IDENTITY_MIN_REFRESH", "1s")]).identity, None);
    let refresh = [
        ("IDENTITY_MIN_REFRESH", "1s"),
        ("IDENTITY_MAX_REFRESH", "2s"),
    ];
    let identity = load(&with(&refresh)).identity;
    let refresh = certify_of(identity.expect("it is complete")).refresh;
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
fn trust_anchors_are_in_a_variable_or_in_a_file() {
    let file = ("LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE", "/anchors.pem");
    let errors = refused(&with(&[file]));
    assert_eq!(
        messages(&errors),
        [
            "LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS and LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE exclude each other"
        ]
    );
    let others = IDENTITY.iter().copied();
    let others = others.filter(|(name, _)| *name != "IDENTITY_TRUST_ANCHORS");
    let others: Vec<_> = others.collect();
    let neither = refused(&others);
    assert!(messages(&neither)[0].starts_with("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS must be set"));
    let fix = neither.errors[0].fix().unwrap_or_default();
    assert!(fix.contains(file.0), "{fix}");
    let identity = load(&[&others[..], &[file]].concat()).identity;
    let path = AnchorsConfig::File("/anchors.pem".into());
    assert_eq!(identity.expect("it is complete").trust_anchors, path);
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

/// An identity by SPIRE and more.
fn spire_with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let spire = [
        (
            "IDENTITY_SPIRE_WORKLOAD_API_ADDRESS",
            "unix:///run/agent.sock",
        ),
        ("IDENTITY_SERVER_ID", "spiffe://cluster.local/web"),
        ("IDENTITY_SERVER_NAME", "web.test"),
    ];
    spire.iter().chain(more).copied().collect()
}

#[test]
fn spire_needs_a_socket_and_two_names() {
    let identity = load(&spire_with(&[])).identity.expect("it is complete");
    assert_eq!(
        identity.local.identity.as_str(),
        "spiffe://cluster.local/web"
    );
    assert_eq!(&*identity.local.server_name, "web.test");
    assert_eq!(identity.trust_anchors, AnchorsConfig::Bundle);
    let ms = Duration::from_millis;
    let default = SpireConfig {
        socket: "/run/agent.sock".into(),
        backoff: Backoff::new(ms(100), ms(1000), 0.1).expect("its parts fit"),
    };
    assert_eq!(identity.issuer, IssuerConfig::Spire(default));
    let more = [
        ("IDENTITY_TRUST_ANCHORS", "anchors"),
        ("IDENTITY_DIR", "/identity"),
    ];
    let loaded = loaded(&spire_with(&more));
    let anchors = loaded
        .config
        .identity
        .expect("it is complete")
        .trust_anchors;
    assert_eq!(anchors, AnchorsConfig::Pem("anchors".to_owned()));
    let note = "LINKERD2_PROXY_IDENTITY_DIR has no effect: SPIRE issues the certificate";
    assert!(
        loaded.notes.iter().any(|known| known == note),
        "{:?}",
        loaded.notes
    );
}

#[test]
fn spire_refuses_what_it_cannot_use() {
    let missing = refused(&[("IDENTITY_SPIRE_SOCKET", "/run/agent.sock")]);
    assert!(
        messages(&missing)[0].starts_with(
            "LINKERD2_PROXY_IDENTITY_SERVER_ID, LINKERD2_PROXY_IDENTITY_SERVER_NAME must"
        ),
        "{missing}"
    );
    let dns = refused(&spire_with(&[("IDENTITY_SERVER_ID", "web.test")]));
    assert_eq!(messages(&dns), ["Spire support requires a SPIFFE TLS Id"]);
    let tcp = (
        "IDENTITY_SPIRE_WORKLOAD_API_ADDRESS",
        "tcp://127.0.0.1:8000",
    );
    let tcp = refused(&spire_with(&[tcp]));
    assert!(messages(&tcp)[0].ends_with("is no Unix socket"), "{tcp}");
    let local = refused(&[("IDENTITY_LOCAL_NAME", "spiffe://cluster.local/web")]);
    let fix = local.errors[0].fix().unwrap_or_default();
    assert!(fix.contains("a SPIFFE ID is no server name"), "{fix}");
}

#[test]
fn the_old_names_of_spire_are_accepted() {
    let others = [
        ("IDENTITY_SPIRE_SOCKET", "/old.sock"),
        ("IDENTITY_SERVER_ID", "spiffe://cluster.local/web"),
        ("IDENTITY_SERVER_NAME", "web.test"),
        (
            "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MIN",
            "5ms",
        ),
        (
            "LINKERD2_PROXY_LINKERD2_PROXY_IDENTITY_SPIRE_EXP_BACKOFF_MAX",
            "9ms",
        ),
        ("IDENTITY_SPIRE_EXP_BACKOFF_MAX", "7ms"),
    ];
    let loaded = loaded(&others);
    let ms = Duration::from_millis;
    let spire = SpireConfig {
        socket: "/old.sock".into(),
        backoff: Backoff::new(ms(5), ms(7), 0.0).expect("its parts fit"),
    };
    let issuer = loaded.config.identity.expect("it is complete").issuer;
    assert_eq!(issuer, IssuerConfig::Spire(spire));
    let warning = "LINKERD2_PROXY_IDENTITY_SPIRE_SOCKET has been deprecated; use \
                   LINKERD2_PROXY_IDENTITY_SPIRE_WORKLOAD_API_ADDRESS";
    assert!(
        loaded.warnings.iter().any(|known| known == warning),
        "{:?}",
        loaded.warnings
    );
    let half = refused(&spire_with(&[("IDENTITY_SPIRE_EXP_BACKOFF_MIN", "5ms")]));
    assert!(
        messages(&half)[0].ends_with("must be set together"),
        "{half}"
    );
}
