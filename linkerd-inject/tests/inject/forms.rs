//! Forms of YAML: injection and removal restore the text.

use crate::{text_of, types, uninjected, yaml_values};
use linkerd_inject::InjectOptions;

#[test]
fn a_text_is_the_same_after_the_way_there_and_back() {
    for text in [
        // Without a line end.
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a",
        // Line ends of Windows.
        "apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: a\r\nspec:\r\n  containers:\r\n  - name: a\r\n",
        // A mark of the byte order.
        "\u{feff}apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n",
        // A block that keeps its line ends, as the last value.
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n    args:\n    - |+\n      text\n\n\n---\na: b\n",
        // Braces in part.
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  initContainers: []\n  containers: [{name: a}]\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a,}\nspec: {containers: [\n  {name: a}, # the first\n  ]}\n",
        // Wide indentation, keys in quotes.
        "apiVersion: v1\nkind: Pod\nmetadata:\n    name: a\n\"spec\":\n    'containers':\n        -   name: a\n            image: b\n    # end\n\n# really\n",
        // The spec first, and no metadata.
        "apiVersion: v1\nspec:\n  containers:\n  - name: é\n    image: ü\nkind: Pod\nmetadata: {generateName: ä-}\n...\n",
        // Anchors elsewhere.
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - &c\n    name: a\n    resources: {limits: &l {cpu: 1}, requests: *l}\n",
    ] {
        let options = InjectOptions::default();
        let injected = text_of(text, &options);
        assert!(injected.contains("linkerd-init"), "{injected}");
        assert_eq!(text_of(&injected, &options), injected, "injected twice");
        assert_eq!(uninjected(&injected), text);
        assert_eq!(text.contains('\r'), injected.contains('\r'));
        assert_eq!(
            injected.matches('\r').count(),
            if text.contains('\r') {
                injected.matches('\n').count()
            } else {
                0
            }
        );
    }
}

#[test]
fn empty_values_are_filled() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n  annotations: null\nspec:\n  volumes: # none\n  initContainers: ~\n  containers:\n  - name: a\n";
    let injected = text_of(text, &InjectOptions::default());
    types::check("pod", &yaml_values::documents(&injected)[0]);
    for line in [
        "\n  labels:\n    linkerd.io/control-plane-ns: linkerd\n",
        "\n  volumes: # none\n  - name: linkerd",
    ] {
        assert!(injected.contains(line), "{line}: {injected}");
    }
}

#[test]
fn a_text_without_a_sidecar_is_left_alone() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {linkerd.io/workload-ns: mine}\nspec:\n  containers:\n  - name: a\n";
    assert_eq!(uninjected(text), text);
}

#[test]
fn a_diff_has_only_lines_of_the_sidecar() {
    let text =
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: a\n";
    let after = text_of(text, &InjectOptions::default());
    let diff = linkerd_inject::unified_diff("pod.yaml", text, &after);
    assert!(
        diff.starts_with("--- a/pod.yaml\n+++ b/pod.yaml\n@@ -"),
        "{diff}"
    );
    assert!(
        diff.lines().skip(1).all(|line| !line.starts_with('-')),
        "{diff}"
    );
    assert_eq!(linkerd_inject::unified_diff("pod.yaml", text, text), "");
}
