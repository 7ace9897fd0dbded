//! Typed fields of manifests. A value of another type would be refused by the API server, and is refused here, with its place.

use crate::{
    problem::Problem,
    yaml::{Node, NodeKind},
};

/// The boolean of a field, in the spellings of YAML 1.1; `None` for a null, which counts as absent.
pub(crate) fn boolean(name: &str, node: &Node) -> Result<Option<bool>, Problem> {
    if node.is_null() {
        return Ok(None);
    }
    let value = match &node.kind {
        NodeKind::Scalar(value) => value.boolean(),
        _ => None,
    };
    let refused = || {
        let found = description(node);
        let reason =
            format!("{name} is {found}, not a boolean; write true or false without quotes");
        Problem::new(node.line, reason)
    };
    value.map(Some).ok_or_else(refused)
}

/// The value for messages.
fn description(node: &Node) -> String {
    match (&node.kind, node.text()) {
        (_, Some(text)) => format!("{text:?}"),
        (NodeKind::List { .. }, _) => "a list".to_owned(),
        (NodeKind::Map { .. }, _) => "a map".to_owned(),
        (NodeKind::Scalar(_), None) => "null".to_owned(),
    }
}
