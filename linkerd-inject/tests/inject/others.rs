//! Objects that are no workloads pass unchanged, and not silently if they may have pods or are no objects.

use crate::{injected, text_of};
use linkerd_inject::{InjectOptions, NoteKind};

const PODS: &str = "metadata: {name: a}\nspec: {template: {spec: {containers: [{name: a}]}}}\n";

#[test]
fn workloads_of_another_version_are_named_with_the_known_one() {
    for (version, kind, known) in [
        ("batch/v1beta1", "CronJob", "batch/v1 and kind: CronJob"),
        (
            "extensions/v1beta1",
            "Deployment",
            "apps/v1 and kind: Deployment",
        ),
        ("apps/v1", "Pod", "v1 and kind: Pod"),
        ("v1", "DaemonSet", "apps/v1 and kind: DaemonSet"),
        ("apps/v1", "deployment", "apps/v1 and kind: Deployment"),
    ] {
        let note = note(&format!("apiVersion: {version}\nkind: {kind}\n{PODS}"));
        let start = format!(
            "in.yaml:1: {kind}/a: skipped: {kind} of {version} is not known; write apiVersion: {known}."
        );
        assert!(note.starts_with(&start), "{note}");
    }
}

#[test]
fn objects_without_a_type_are_warned_about() {
    for (text, missing) in [
        (format!("kind: Pod\n{PODS}"), "apiVersion"),
        (format!("apiVersion: v1\n{PODS}"), "kind"),
        ("a: b\n".to_owned(), "apiVersion and kind"),
        (format!("apiVersion: 1\nkind: [Pod]\n{PODS}"), "kind"),
    ] {
        let note = note(&text);
        let part = format!("warning: without {missing} it is not known");
        assert!(note.contains(&part), "{note}");
    }
}

#[test]
fn documents_that_are_no_objects_are_warned_about() {
    for (text, start) in [
        (
            "- a\n- b\n",
            "document: warning: a list in place of an object",
        ),
        ("nonsense\n", "document: warning: text in place"),
        (
            "---\n---\n# nothing\n---\n7\n",
            "document 3: warning: text in place",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [a]\n",
            "document: warning: text in place",
        ),
        ("apiVersion: v1\nkind: PodList\nitems: {}\n", ""),
    ] {
        let notes = injected(text, &InjectOptions::default()).unwrap().1;
        let found = notes.first().map(ToString::to_string).unwrap_or_default();
        assert!(found.contains(start), "{found}");
        assert!(notes.iter().all(|note| note.kind == NoteKind::Warning));
    }
}

#[test]
fn pods_of_other_kinds_are_found_in_each_template() {
    let pods = "spec: {containers: [{name: a}]}";
    for template in [
        format!("spec: {{template: {{{pods}}}}}"),
        format!("spec: {{jobTemplate: {{spec: {{template: {{{pods}}}}}}}}}"),
        format!("template: {{{pods}}}"),
        format!("spec: {{podTemplate: {{{pods}}}}}"),
    ] {
        let text =
            format!("apiVersion: x.example/v1\nkind: Job\nmetadata: {{name: a}}\n{template}\n");
        let note = note(&text);
        assert!(
            note.contains("Job/a: skipped: no kind of workload with pods"),
            "{note}"
        );
    }
}

/// As kubectl does.
#[test]
fn items_without_a_type_have_that_of_their_list() {
    let text = format!(
        "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- {}\n",
        PODS.trim().replace('\n', "\n  ")
    );
    let after = text_of(&text, &InjectOptions::default());
    assert!(after.contains("linkerd.io/proxy-deployment"), "{after}");
    assert_eq!(crate::uninjected(&after), text);
}

/// The message about a text, which is left as it is.
fn note(text: &str) -> String {
    let (after, notes) = injected(text, &InjectOptions::default()).unwrap();
    assert_eq!(after, text);
    assert_eq!(notes.len(), 1, "{notes:?}");
    notes[0].to_string()
}
