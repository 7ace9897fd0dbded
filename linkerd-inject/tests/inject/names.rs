//! Names of workloads as values of labels.

use crate::{CONTAINER, deployment, injected, uninjected};
use linkerd_inject::{InjectOptions, NoteKind};

/// A Deployment's name may have 253 characters, and a label's value 63.
#[test]
fn a_name_that_is_too_long_for_a_label_is_left_out_of_it() {
    for (length, is_label) in [(63, true), (64, false)] {
        let name = "n".repeat(length);
        let text = deployment("", CONTAINER)
            .replace("  name: web\nspec", &format!("  name: {name}\nspec"));
        let (after, notes) = injected(&text, &InjectOptions::default()).unwrap();
        assert_eq!(after.contains("linkerd.io/proxy-deployment"), is_label);
        let warned = notes.iter().any(|note| {
            note.kind == NoteKind::Warning && note.reason.contains("linkerd.io/proxy-deployment")
        });
        assert_eq!(warned, !is_label, "{notes:?}");
        assert!(after.contains("name: linkerd-proxy\n"));
        assert_eq!(uninjected(&after), text);
    }
}
