//! Merge keys (`<<`): values are read through them, as kubectl reads them, and written beside them.

use crate::{deployment, injected, text_of, uninjected};
use linkerd_inject::{InjectOptions, NoteKind};

/// A pod with lines of metadata and spec, after a ConfigMap with anchors. Anchors end with their document, so that all is in a list.
fn pod(anchors: &str, metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: List\n{anchors}items:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n{metadata}  spec:\n{spec}"
    )
}

const CONTAINERS: &str = "    containers: [{name: a, image: a}]\n";

#[test]
fn an_opt_out_that_is_merged_counts() {
    for (anchors, metadata, spec, reason) in [
        (
            "x: &x {linkerd.io/inject: disabled}\n",
            "    annotations:\n      <<: *x\n      foo: bar\n",
            CONTAINERS.to_owned(),
            "disabled",
        ),
        (
            "",
            "    annotations: &shared\n      <<: {linkerd.io/inject: disabled}\n",
            CONTAINERS.to_owned(),
            "disabled",
        ),
        (
            "x: &x {sidecar.istio.io/inject: 'false'}\ny: &y {a: b}\n",
            "    labels: {<<: [*y, *x]}\n",
            CONTAINERS.to_owned(),
            "sidecar.istio.io/inject",
        ),
        (
            "x: &x {hostNetwork: true}\n",
            "",
            format!("    <<: *x\n{CONTAINERS}"),
            "hostNetwork",
        ),
    ] {
        let text = pod(anchors, metadata, &spec);
        let (after, notes) = injected(&text, &InjectOptions::default()).unwrap();
        assert_eq!(after, text);
        assert_eq!(notes[0].kind, NoteKind::Skipped, "{text}");
        assert!(notes[0].reason.contains(reason), "{}", notes[0]);
    }
}

#[test]
fn settings_ports_and_volumes_are_read_through_merges() {
    let text = pod(
        "x: &x {config.linkerd.io/proxy-log-level: debug}\ny: &y {ports: [{containerPort: 8123}]}\n",
        "    annotations: {<<: *x, a: b}\n",
        "    <<: {dnsPolicy: Default}\n    containers:\n    - <<: *y\n      name: a\n",
    );
    let after = text_of(&text, &InjectOptions::default());
    assert!(after.contains("\"debug,[{headers}]=off"), "{after}");
    assert!(
        after.contains("INBOUND_PORTS\n        value: \"8123\""),
        "{after}"
    );
    assert_eq!(text_of(&after, &InjectOptions::default()), after);
    assert_eq!(uninjected(&after), text);
}

#[test]
fn a_change_of_a_merged_list_or_map_is_refused() {
    for (metadata, spec) in [
        ("", "    <<: {volumes: []}\n    containers: [{name: a}]\n"),
        (
            "    <<: {labels: {a: b}}\n",
            "    containers: [{name: a}]\n",
        ),
        (
            "    annotations: {config.linkerd.io/proxy-enable-native-sidecar: 'false'}\n",
            "    <<: {containers: [{name: a}]}\n",
        ),
    ] {
        let text = pod("", metadata, spec);
        let error = injected(&text, &InjectOptions::default()).unwrap_err();
        assert!(error.to_string().contains("write them out"), "{error}");
    }
    // A native sidecar leaves the containers as they are.
    let text = pod("", "", "    <<: {containers: [{name: a}]}\n");
    assert!(text_of(&text, &InjectOptions::default()).contains("linkerd-proxy"));
}

/// kubectl takes the merged value of a key before `<<`, and other readers the key's own.
#[test]
fn a_value_that_readers_dispute_is_refused() {
    let spec = format!(
        "hostNetwork: false\n<<: {{hostNetwork: true}}\n{}",
        crate::CONTAINER
    );
    let error = injected(&deployment("", &spec), &InjectOptions::default()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("in.yaml:11: Deployment/web: hostNetwork stands before"),
        "{error}"
    );
    let spec = format!(
        "<<: {{hostNetwork: true}}\nhostNetwork: false\n{}",
        crate::CONTAINER
    );
    let text = deployment("", &spec);
    assert!(text_of(&text, &InjectOptions::default()).contains("linkerd-proxy"));
}
