//! Helpers of the mesh file's tests.

use super::{Mesh, MeshError};

/// The mesh of a text without problems.
pub(super) fn mesh(text: &str) -> Mesh {
    Mesh::parse("mesh.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Expects one problem, which begins with `problem`, `line:column: reason`.
pub(super) fn refused(text: &str, problem: &str) {
    match Mesh::parse("mesh.yaml", text) {
        Err(error @ MeshError::Invalid { .. }) => {
            let told = error.to_string();
            let expected = format!("mesh.yaml:{problem}");
            assert!(
                told.starts_with(&expected),
                "{text}\n{told}\nexpected {expected}"
            );
            assert!(!told.contains('\n'), "{text}\n{told}");
        }
        other => panic!("{text}\n{other:?}"),
    }
}

/// A service `web` with ports 80 and 81 and `fields` in line 4, beside a service `canary`.
pub(super) fn web_with(fields: &str) -> String {
    format!(
        "services:\n- name: web\n  ports: [80, 81]\n  {fields}\n- {{name: canary, port: 8080}}\n"
    )
}

/// Expects one problem at the mark `^` in the fields of [`web_with`].
pub(super) fn refused_at_mark(fields: &str, reason: &str) {
    let mark = fields.find('^').expect("a mark");
    let text = web_with(&fields.replace('^', ""));
    refused(&text, &format!("4:{}: {reason}", mark + 3));
}
