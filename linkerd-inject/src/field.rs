//! Typed fields of manifests. A value of another type would be refused by the API server, and is refused here, with its place.

use crate::{
    problem::Problem,
    yaml::{Node, NodeKind, Yaml},
};
use std::ops::RangeInclusive;

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

/// The whole number of a field, in the spellings of YAML 1.1.
pub(crate) fn integer(name: &str, node: &Node, range: RangeInclusive<i64>) -> Result<i64, Problem> {
    let value = match &node.kind {
        NodeKind::Scalar(value) => value.integer(),
        _ => None,
    };
    let refused = || {
        let (found, first, last) = (description(node), range.start(), range.end());
        let reason =
            format!("{name} is {found}, not a number from {first} to {last} without quotes");
        Problem::new(node.line, reason)
    };
    value
        .filter(|number| range.contains(number))
        .ok_or_else(refused)
}

/// The labels or annotations whose values are no texts.
pub(crate) fn not_texts(map: Option<&Node>) -> Vec<Problem> {
    let entries = map.map(Node::entries).unwrap_or_default();
    let refused = entries
        .into_iter()
        .filter_map(|(key, value)| not_a_text(key.text()?, value));
    refused.collect()
}

/// The problem of a label or annotation whose value is no text. A null counts as an empty one.
pub(crate) fn not_a_text(name: &str, value: &Node) -> Option<Problem> {
    let found = match &value.kind {
        NodeKind::Scalar(Yaml::Str(_) | Yaml::Null) => return None,
        NodeKind::Scalar(Yaml::Plain(text)) => {
            format!("{text}, which is no text; write \"{text}\" in quotes")
        }
        _ => format!("{}, not a text", description(value)),
    };
    Some(Problem::new(value.line, format!("{name} is {found}")))
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
