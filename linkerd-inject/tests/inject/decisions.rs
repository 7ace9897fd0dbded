//! Decisions whether workloads get a sidecar.

use crate::{CONTAINER, deployment, injected, manifest};
use linkerd_inject::{InjectMode, InjectOptions, NoteKind, inject};

/// The annotations of the namespace and of the pod decide as with the injector of a cluster.
#[test]
fn annotations_decide_as_in_a_cluster() {
    let options = InjectOptions {
        mode: InjectMode::Annotated,
        ..InjectOptions::default()
    };
    let values = [
        None,
        Some("enabled"),
        Some("ingress"),
        Some("disabled"),
        Some("yes"),
    ];
    for namespace in values {
        for pod in values {
            let expected = match (namespace, pod) {
                (_, Some("enabled" | "ingress")) => pod,
                (_, Some(_)) => None,
                (Some("enabled" | "ingress"), None) => namespace,
                (_, None) => None,
            };
            let (is_injected, is_ingress) = outcome(namespace, pod, &options);
            assert_eq!(is_injected, expected.is_some(), "{namespace:?} {pod:?}");
            assert_eq!(
                is_ingress,
                expected == Some("ingress"),
                "{namespace:?} {pod:?}"
            );
        }
    }
}

#[test]
fn without_an_annotation_the_command_decides() {
    let of = |mode, namespace, pod| {
        let options = InjectOptions {
            mode,
            ..InjectOptions::default()
        };
        outcome(namespace, pod, &options)
    };
    assert_eq!(of(InjectMode::Enabled, None, None), (true, false));
    assert_eq!(of(InjectMode::Ingress, None, None), (true, true));
    assert_eq!(of(InjectMode::Annotated, None, None), (false, false));
    assert_eq!(
        of(InjectMode::Enabled, Some("disabled"), None),
        (false, false)
    );
    assert_eq!(
        of(InjectMode::Ingress, None, Some("enabled")),
        (true, false)
    );
}

#[test]
fn a_namespace_of_another_file_counts() {
    let files = [
        manifest(&deployment("", CONTAINER)),
        manifest(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations: {linkerd.io/inject: disabled}\n",
        ),
    ];
    let options = InjectOptions {
        namespace: Some("shop".to_owned()),
        ..InjectOptions::default()
    };
    let (after, notes) = inject(&files, &options).unwrap();
    assert_eq!(after, files);
    assert!(notes[0].reason.contains("namespace"), "{notes:?}");
}

#[test]
fn skipped_pods_stay_as_they_are_and_say_why() {
    for (metadata, spec, reason) in [
        ("", "hostNetwork: true", "hostNetwork"),
        ("", "os: {name: windows}", "Windows"),
        ("", "nodeSelector: {kubernetes.io/os: windows}", "Windows"),
        (
            "",
            "automountServiceAccountToken: false",
            "automountServiceAccountToken",
        ),
        (
            "",
            "initContainers: [{name: linkerd-init, image: a}]",
            "linkerd-proxy uninject FILE",
        ),
        (
            "",
            "initContainers: [{name: istio-proxy, image: a}]",
            "another mesh, istio-proxy",
        ),
        ("annotations: {linkerd.io/inject: disabled}", "", "disabled"),
        (
            "annotations: {linkerd.io/inject: 'on'}",
            "",
            "none of enabled",
        ),
        (
            "labels: {sidecar.istio.io/inject: 'false'}",
            "",
            "sidecar.istio.io/inject",
        ),
        (
            "labels: {linkerd.io/control-plane-component: x}",
            "",
            "control plane",
        ),
    ] {
        let text = deployment(metadata, &format!("{spec}\n{CONTAINER}"));
        let (after, notes) = injected(&text, &InjectOptions::default()).unwrap();
        assert_eq!(after, text);
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].kind, NoteKind::Skipped);
        assert!(
            notes[0]
                .to_string()
                .starts_with("in.yaml:1: Deployment/web: skipped: "),
            "{}",
            notes[0]
        );
        assert!(notes[0].reason.contains(reason), "{reason}: {}", notes[0]);
    }
}

/// kubectl reads YAML 1.1.
#[test]
fn booleans_count_in_each_spelling_of_kubectl() {
    let yes = [
        "y",
        "Y",
        "yes",
        "Yes",
        "YES",
        "true",
        "True",
        "TRUE",
        "on",
        "On",
        "ON",
        "!!bool true",
        "!!bool 'true'",
        "&a true",
    ];
    let no = [
        "n",
        "N",
        "no",
        "No",
        "NO",
        "false",
        "False",
        "FALSE",
        "off",
        "Off",
        "OFF",
        "!!bool no",
    ];
    let is_skipped = |field: &str, value: &str| {
        let text = deployment("", &format!("{field}: {value}\n{CONTAINER}"));
        let (after, notes) = injected(&text, &InjectOptions::default()).unwrap();
        let is_skipped = notes[0].kind == NoteKind::Skipped && notes[0].reason.contains(field);
        assert_eq!(after == text, is_skipped, "{field}: {value}");
        is_skipped
    };
    for value in yes {
        assert!(is_skipped("hostNetwork", value), "{value}");
        assert!(
            !is_skipped("automountServiceAccountToken", value),
            "{value}"
        );
    }
    for value in no {
        assert!(!is_skipped("hostNetwork", value), "{value}");
        assert!(is_skipped("automountServiceAccountToken", value), "{value}");
    }
    for value in ["null", "~", ""] {
        assert!(!is_skipped("hostNetwork", value), "{value}");
        assert!(
            !is_skipped("automountServiceAccountToken", value),
            "{value}"
        );
    }
}

#[test]
fn a_projected_token_is_a_token() {
    let volumes =
        "volumes:\n- name: token\n  projected: {sources: [{serviceAccountToken: {path: token}}]}\n";
    let text = deployment(
        "",
        &format!("automountServiceAccountToken: false\n{CONTAINER}{volumes}"),
    );
    assert!(crate::text_of(&text, &InjectOptions::default()).contains("name: linkerd-proxy\n"));
}

#[test]
fn kinds_without_pods_pass() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: batch.example/v1\nkind: Job\nmetadata: {name: b}\nspec: {template: {spec: {containers: [{name: a}]}}}\n---\n# nothing\n---\napiVersion: v1\nkind: Service\nmetadata: {name: c}\n";
    let (after, notes) = injected(text, &InjectOptions::default()).unwrap();
    assert_eq!(after, text);
    let [note] = notes.as_slice() else {
        panic!("{notes:?}")
    };
    assert!(
        note.to_string()
            .contains("Job/b (document 2): skipped: no kind"),
        "{note}"
    );
}

#[test]
fn an_annotation_at_the_wrong_place_is_warned_about() {
    let text = deployment("", CONTAINER).replace(
        "  name: web\nspec",
        "  name: web\n  annotations: {linkerd.io/inject: disabled}\nspec",
    );
    let (after, notes) = injected(&text, &InjectOptions::default()).unwrap();
    assert!(after.contains("linkerd-init"));
    assert_eq!(notes[0].kind, NoteKind::Warning);
    assert!(notes[0].reason.contains("pod template"), "{}", notes[0]);
}

#[test]
fn unknown_settings_are_warned_about() {
    let text = deployment(
        "annotations: {config.linkerd.io/proxy-log-levle: debug}",
        CONTAINER,
    );
    let (_, notes) = injected(&text, &InjectOptions::default()).unwrap();
    assert!(notes[0].reason.contains("proxy-log-levle"), "{}", notes[0]);
}

#[test]
fn settings_have_three_prefixes_and_others_are_warned_about() {
    let named = |name: &str, value: &str| {
        let text = deployment(&format!("annotations: {{{name}: \"{value}\"}}"), CONTAINER);
        let (after, _) = injected(&text, &InjectOptions::default()).unwrap();
        (after, warnings(&text, &InjectOptions::default()))
    };
    let image = "registry.example/linkerd-proxy";
    for stage in ["", "alpha.", "beta."] {
        let (after, warnings) = named(&format!("config.{stage}linkerd.io/proxy-image"), image);
        assert!(after.contains(&format!("image: {image}:")), "{after}");
        assert_eq!(warnings, [""; 0]);
        let unknown = format!("config.{stage}linkerd.io/proxy-log-levle");
        let (_, warnings) = named(&unknown, "debug");
        assert!(
            warnings[0].contains(&format!("there is no setting {unknown}")),
            "{warnings:?}"
        );
    }
    for (misspelt, meant) in [
        ("config.linkerd.i/proxy-log-level", "config.linkerd.io/"),
        ("confg.linkerd.io/proxy-log-level", "config.linkerd.io/"),
        ("Config.linkerd.io/proxy-log-level", "config.linkerd.io/"),
        (
            "config.bet.linkerd.io/proxy-log-level",
            "config.beta.linkerd.io/",
        ),
        (
            "config.gamma.linkerd.io/proxy-log-level",
            "config.linkerd.io/",
        ),
        ("linkerd.io/proxy-log-level", "config.linkerd.io/"),
    ] {
        let (_, warnings) = named(misspelt, "debug");
        let expected = format!("{misspelt} has no effect; did you mean {meant}proxy-log-level?");
        assert!(warnings.contains(&expected), "{warnings:?}");
    }
    for other in [
        "viz.linkerd.io/tap-enabled",
        "linkerd.io/helm-release-version",
        "retry.linkerd.io/http",
        "config.example.com/proxy-log-level",
    ] {
        let (_, warnings) = named(other, "true");
        assert!(
            !warnings.iter().any(|it| it.contains(other)),
            "{warnings:?}"
        );
    }
}

/// Whether a pod gets a sidecar, and whether in ingress mode.
fn outcome(namespace: Option<&str>, pod: Option<&str>, options: &InjectOptions) -> (bool, bool) {
    let annotations = |value: Option<&str>| match value {
        Some(value) => format!("  annotations:\n    linkerd.io/inject: \"{value}\"\n"),
        None => String::new(),
    };
    let text = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n{}---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n{}spec:\n  containers:\n  - name: web\n    image: web:1\n",
        annotations(namespace),
        annotations(pod)
    );
    let (after, _) = injected(&text, options).unwrap();
    let is_injected = after != text;
    (is_injected, after.contains("INGRESS_MODE"))
}

/// Warnings of an injection.
fn warnings(text: &str, options: &InjectOptions) -> Vec<String> {
    let (_, notes) = injected(text, options).unwrap();
    let warnings = notes.iter().filter(|note| note.kind == NoteKind::Warning);
    warnings.map(|note| note.reason.clone()).collect()
}

#[test]
fn an_image_that_no_registry_has_is_named_once() {
    let pods = format!("{0}---\n{0}", deployment("", CONTAINER));
    let found = warnings(&pods, &InjectOptions::default());
    let [warning] = &found[..] else {
        panic!("{found:?}")
    };
    assert!(
        warning.contains("linkerd-proxy:0.") && warning.contains("--proxy-image"),
        "{warning}"
    );
    let named = deployment(
        "annotations: {config.linkerd.io/proxy-image: registry.example/linkerd-proxy}",
        CONTAINER,
    );
    assert_eq!(warnings(&named, &InjectOptions::default()), [""; 0]);
}

#[test]
fn a_namespace_that_refuses_the_init_container_is_named() {
    let mut options = InjectOptions::default();
    options.settings.set("proxy-image", "a/b").unwrap();
    let namespaced = |level: &str| {
        let pod = deployment("", CONTAINER)
            .replace("  name: web\nspec", "  name: web\n  namespace: shop\nspec");
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  labels: {{pod-security.kubernetes.io/enforce: {level}}}\n---\n{pod}"
        )
    };
    for level in ["restricted", "baseline"] {
        let found = warnings(&namespaced(level), &options);
        let is_named = found[0].contains(level) && found[0].contains("--linkerd-cni-enabled");
        assert!(found.len() == 1 && is_named, "{found:?}");
    }
    assert_eq!(warnings(&namespaced("privileged"), &options), [""; 0]);
    options.mesh.cni = true;
    assert_eq!(warnings(&namespaced("restricted"), &options), [""; 0]);
}

#[test]
fn ports_that_require_an_identity_are_the_policy_controllers() {
    let mut options = InjectOptions::default();
    options.settings.set("proxy-image", "a/b").unwrap();
    let pod = deployment(
        "annotations: {config.linkerd.io/proxy-require-identity-inbound-ports: '8080'}",
        CONTAINER,
    );
    let found = warnings(&pod, &options);
    assert!(
        found.len() == 1 && found[0].contains("policy controller"),
        "{found:?}"
    );
}
