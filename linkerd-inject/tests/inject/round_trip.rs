//! Generated pods: a second injection changes nothing, and removal restores the original.

use crate::{text_of, types, uninjected, yaml_values};
use linkerd_inject::InjectOptions;
use proptest::prelude::*;

/// A block of lines, or its absence.
fn block(options: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(options).prop_map(str::to_owned)
}

prop_compose! {
    fn pod()(
        head in block(&["", "# a comment\n", "---\n", "--- # start\n"]),
        labels in block(&["", "  labels:\n    app: web\n", "  labels: {app: web}\n", "  labels: {}\n", "  labels:\n    app: web # tail\n  # below\n"]),
        annotations in block(&[
            "",
            "  annotations:\n    config.linkerd.io/proxy-enable-native-sidecar: \"false\"\n",
            "  annotations: {config.linkerd.io/proxy-await: disabled, config.linkerd.io/proxy-enable-native-sidecar: \"false\"}\n",
            "  annotations:\n    text: |\n      one\n\n      two\n\n",
            "  annotations:\n    text: >-\n      folded\n      text\n",
        ]),
        before in block(&["", "  # above\n  restartPolicy: Never\n", "  nodeSelector: {a: b}\n"]),
        init in block(&["", "  initContainers:\n  - name: i\n", "  initContainers: [{name: i}]\n", "  initContainers:\n    # first\n    - name: i\n      command: [a, \"b\"]\n"]),
        containers in block(&[
            "  containers:\n  - name: web\n",
            "  containers:\n    - image: web\n      name: web\n    # a comment\n    - name: other\n",
            "  containers: [{name: web}, {name: other,}]\n",
            "  containers:\n  -\n    name: web\n    args:\n    - |+\n      a\n\n",
        ]),
        volumes in block(&["", "  volumes:\n  - name: v\n    emptyDir: {}\n", "  volumes: []\n", "  volumes: [ {name: v, emptyDir: {}} ]  # one\n"]),
        after in block(&["", "\n\n", "  dnsPolicy: Default\n", "# the end\n", "...\n", "---\n# nothing\n"]),
    ) -> String {
        format!("{head}apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n{labels}{annotations}spec:\n{before}{init}{containers}{volumes}{after}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_pod_is_injected_once_and_comes_back(text in pod(), cni: bool) {
        let mut options = InjectOptions::default();
        options.mesh.cni = cni;
        let injected = text_of(&text, &options);
        prop_assert!(injected.len() > text.len());
        prop_assert_eq!(types::check("pod", &yaml_values::documents(&injected)[0]), 1);
        prop_assert_eq!(&text_of(&injected, &options), &injected);
        prop_assert_eq!(uninjected(&injected), text);
    }
}
