//! Errors of the input: all are reported with their positions, and no manifest is changed.

use crate::{CONTAINER, deployment, injected, manifest};
use linkerd_inject::{InjectOptions, ProxySettings, inject};

#[test]
fn malformed_yaml_is_refused_with_its_line() {
    let error = error("apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n");
    assert!(error.starts_with("in.yaml:3: malformed YAML: "), "{error}");
}

/// Such as several outputs of `kubectl get -o json`.
#[test]
fn a_stream_of_json_objects_is_refused_with_the_fix() {
    let pod =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}"#;
    for (text, line) in [
        (format!("{pod}\n{pod}\n"), 2),
        (format!("{pod}{pod}\n"), 1),
        ("{\n\"kind\":\"List\"\n}\n\n{\n}\n".to_owned(), 5),
    ] {
        let found = error(&text);
        let start = format!("in.yaml:{line}: text follows the end of an object; write a line ---");
        assert!(found.starts_with(&start), "{found}");
        assert!(found.contains("jq -s"), "{found}");
    }
}

#[test]
fn one_bad_file_leaves_all_as_they_were() {
    let files = [manifest(&deployment("", CONTAINER)), manifest("a: [")];
    assert_eq!(
        inject(&files, &InjectOptions::default())
            .unwrap_err()
            .problems
            .len(),
        1
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = deployment(
        "annotations:\n  config.linkerd.io/proxy-uid: root\n  config.linkerd.io/skip-inbound-ports: 9-1",
        CONTAINER,
    );
    let found = error(&format!("{text}---\n{text}"));
    let lines: Vec<_> = found.lines().collect();
    assert_eq!(lines.len(), 4, "{found}");
    assert_eq!(
        lines[0],
        "in.yaml:12: Deployment/web (document 1): proxy-uid: \"root\" is not a number that is allowed here"
    );
    assert!(
        lines[1].starts_with("in.yaml:13: Deployment/web (document 1): skip-inbound-ports: "),
        "{found}"
    );
    assert!(lines[3].contains("(document 2)"), "{found}");
}

#[test]
fn bad_values_are_refused() {
    for (name, value) in [
        ("access-log", "xml"),
        ("admin-port", "0"),
        ("admin-port", "70000"),
        ("close-wait-timeout", "1"),
        ("default-inbound-policy", "allow"),
        ("image-pull-policy", "always"),
        ("opaque-ports", "a_b"),
        ("proxy-additional-env", "A=b"),
        ("proxy-additional-env", "[{value: b}]"),
        ("proxy-additional-env", "[{name: A, value: 1}]"),
        ("proxy-await", "maybe"),
        ("proxy-cpu-limit", "much"),
        ("proxy-cpu-ratio-limit", "2"),
        ("proxy-enable-native-sidecar", "yes"),
        ("proxy-gid", "-1"),
        ("proxy-image", ""),
        ("proxy-inbound-connect-timeout", "5 s"),
        ("proxy-log-format", "xml"),
        ("proxy-memory-request", "64MB"),
        ("proxy-uid", "0"),
        ("shutdown-grace-period", "99999999999999999d"),
        ("skip-outbound-ports", "1-70000"),
        ("skip-subnets", "10.0.0.0/33"),
        ("no-such-setting", "1"),
    ] {
        let error = ProxySettings::default().set(name, value);
        assert!(
            error.as_ref().is_err_and(|text| text.contains(name)),
            "{name}: {error:?}"
        );
    }
}

#[test]
fn conflicts_are_refused() {
    for (metadata, spec, part) in [
        (
            "annotations: {linkerd.io/inject: enabled}\nlabels: {sidecar.istio.io/inject: 'true'}",
            "",
            "asks for the sidecar of another mesh",
        ),
        (
            "annotations: {config.linkerd.io/skip-inbound-ports: '1', traffic.sidecar.istio.io/excludeInboundPorts: '2'}",
            "",
            "remove one",
        ),
        (
            "annotations: {config.linkerd.io/admin-port: '4143'}",
            "",
            "are both 4143",
        ),
        (
            "annotations: {config.linkerd.io/proxy-cpu-limit: 100m, config.linkerd.io/proxy-cpu-request: '1'}",
            "",
            "is more than",
        ),
        (
            "annotations: {config.linkerd.io/inbound-port: '8080'}",
            "",
            "containerPort 8080",
        ),
        (
            "annotations: {config.linkerd.io/opaque-ports: db}",
            "",
            "no container has a port db",
        ),
        ("", "securityContext: {runAsUser: 2102}", "runAsUser 2102"),
        ("", "securityContext: {runAsUser: 0x836}", "runAsUser 2102"),
        (
            "",
            "securityContext: {runAsUser: '2102'}",
            "not a number from 0",
        ),
        (
            "",
            "initContainers: [{name: i, restartPolicy: Always, securityContext: {runAsUser: 2102}}]",
            "runAsUser 2102",
        ),
        (
            "",
            "initContainers: [{name: i, restartPolicy: Always, ports: [{containerPort: 4143}]}]",
            "containerPort 4143 is one of the proxy's",
        ),
        (
            "",
            "initContainers: [{name: i, restartPolicy: Always, ports: [{containerPort: 0x105F}]}]",
            "containerPort 4191 is one of the proxy's",
        ),
        (
            "",
            "initContainers: [{name: i, restartPolicy: Always, ports: [{containerPort: '80'}]}]",
            "containerPort is \"80\", not a number from 1 to 65535",
        ),
        (
            "",
            "initContainers: [{name: i, restartPolicy: Always, ports: [{containerPort: 65536}]}]",
            "not a number from 1 to 65535",
        ),
        ("", "volumes: [{name: linkerd-identity-token}]", "rename it"),
    ] {
        let found = error(&deployment(metadata, &format!("{spec}\n{CONTAINER}")));
        assert!(
            found.contains(part) && found.contains("Deployment/web: "),
            "{part}: {found}"
        );
    }
}

/// The API server refuses them, and the decision would be a guess.
#[test]
fn fields_that_are_no_booleans_are_refused_with_their_place() {
    for field in ["hostNetwork", "automountServiceAccountToken"] {
        for value in [
            "'true'",
            "\"no\"",
            "1",
            "tRue",
            "yEs",
            "!!str yes",
            "[true]",
            "{}",
        ] {
            let found = error(&deployment("", &format!("{field}: {value}\n{CONTAINER}")));
            let start = format!("in.yaml:11: Deployment/web: {field} is ");
            assert!(found.starts_with(&start), "{found}");
            assert!(
                found.ends_with("write true or false without quotes"),
                "{found}"
            );
        }
    }
}

/// The API server refuses them.
#[test]
fn labels_and_annotations_that_are_no_texts_are_refused_with_the_fix() {
    for value in ["2103", "false", "on", "1e3", "0x10", "!!int '7'"] {
        for (kind, name) in [
            ("annotations", "config.linkerd.io/proxy-uid"),
            ("annotations", "example.com/other"),
            ("annotations", "linkerd.io/inject"),
            ("labels", "version"),
            ("labels", "sidecar.istio.io/inject"),
        ] {
            let found = error(&deployment(
                &format!("{kind}:\n  {name}: {value}"),
                CONTAINER,
            ));
            let start = format!("in.yaml:12: Deployment/web: {name} is ");
            let mut lines = found.lines();
            let is_fix = |line: &str| line.starts_with(&start) && line.contains("in quotes");
            assert!(lines.any(is_fix), "{found}");
        }
    }
    let found = error(&deployment("annotations: {a: [b], c: {d: e}}", CONTAINER));
    assert!(
        found.contains("a is a list") && found.contains("c is a map"),
        "{found}"
    );
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    linkerd.io/inject: true\n";
    let found = error(namespace);
    let start = "in.yaml:6: Namespace/shop: linkerd.io/inject is true, which is no text; write \"true\" in quotes";
    assert_eq!(found, start);
    // Texts for kubectl, although they look like numbers, and a null, which is an empty text.
    let texts = "labels: {version: 1.2.3, date: 2001-01-01, time: 1:30}\nannotations: {empty: }";
    let text = deployment(texts, CONTAINER);
    assert!(crate::text_of(&text, &InjectOptions::default()).contains("linkerd-proxy"));
}

#[test]
fn settings_of_both_meshes_that_agree_are_no_conflict() {
    let text = deployment(
        "annotations: {config.linkerd.io/skip-inbound-ports: '7', traffic.sidecar.istio.io/excludeInboundPorts: '7'}",
        CONTAINER,
    );
    let (after, _) = injected(&text, &InjectOptions::default()).unwrap();
    assert!(after.contains("\"4190,4191,7\""), "{after}");
}

#[test]
fn forms_that_cannot_be_changed_in_place_are_refused() {
    for (spec, part) in [
        ("volumes: &v []", "anchor"),
        ("<<: {volumes: []}", "<<"),
        ("volumes: []\nvolumes: []", "twice"),
        ("volumes: {}", "not a list"),
        ("volumes: 3", "not a list"),
    ] {
        let found = error(&deployment("", &format!("{spec}\n{CONTAINER}")));
        assert!(found.contains(part), "{part}: {found}");
    }
    for text in [
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: text\n",
    ] {
        assert!(error(text).contains("/web: "), "{text}");
    }
}

/// The errors of an injection.
fn error(text: &str) -> String {
    injected(text, &InjectOptions::default())
        .unwrap_err()
        .to_string()
}
