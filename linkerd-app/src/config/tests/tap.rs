//! The tap server, and its companions.

use super::*;

const CLIENT: &str = "tap.linkerd-viz.serviceaccount.identity.linkerd.cluster.local";

#[test]
fn a_client_turns_the_server_on_and_a_switch_turns_it_off() {
    assert_eq!(load(&[]).tap.server, None);
    assert_eq!(
        load(&[("CONTROL_LISTEN_ADDR", "[::]:4190")]).tap.server,
        None
    );
    let server = load(&[("TAP_SVC_NAME", CLIENT)]).tap.server.unwrap();
    assert_eq!(server.client.as_str(), CLIENT);
    assert_eq!(server.listen, "0.0.0.0:4190".parse().unwrap());
    let moved = [
        ("TAP_SVC_NAME", CLIENT),
        ("CONTROL_LISTEN_ADDR", "127.0.0.1:1"),
    ];
    let listen = load(&moved).tap.server.unwrap().listen;
    assert_eq!(listen, "127.0.0.1:1".parse().unwrap());
    let disabled = [("TAP_SVC_NAME", CLIENT), ("TAP_DISABLED", "true")];
    assert_eq!(load(&disabled).tap.server, None);
    let empty = [("TAP_SVC_NAME", CLIENT), ("TAP_DISABLED", "")];
    assert!(load(&empty).tap.server.is_some());
}

#[test]
fn a_server_that_would_refuse_every_client_is_warned_about() {
    let warnings = loaded(&[("TAP_SVC_NAME", CLIENT)]).warnings;
    let warned = |text: &String| text.starts_with("LINKERD2_PROXY_TAP_SVC_NAME is set, but");
    assert!(warnings.iter().any(warned), "{warnings:?}");
    let with_identity: Vec<_> = IDENTITY
        .iter()
        .copied()
        .chain([("TAP_SVC_NAME", CLIENT)])
        .collect();
    let warnings = loaded(&with_identity).warnings;
    assert!(!warnings.iter().any(warned), "{warnings:?}");
}

#[test]
fn its_port_is_its_own_and_its_client_an_identity() {
    let shared = [
        ("TAP_SVC_NAME", CLIENT),
        ("CONTROL_LISTEN_ADDR", "0.0.0.0:4143"),
    ];
    assert!(Config::load(&env(&shared)).is_err());
    let unused = [("CONTROL_LISTEN_ADDR", "0.0.0.0:4143")];
    assert!(Config::load(&env(&unused)).is_ok(), "it does not listen");
    assert!(Config::load(&env(&[("TAP_SVC_NAME", "tap client")])).is_err());
}
