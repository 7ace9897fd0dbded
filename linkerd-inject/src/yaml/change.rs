//! Changes of a text, expressed as changes of its values.

use super::Yaml;

/// A step from a node to one below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathStep {
    Key(String),
    Index(usize),
}

/// A change at the node of a path, whose first step is the document.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Adds fields at the end of a map, or of a null.
    AddFields(Vec<PathStep>, Vec<(String, Yaml)>),
    /// Adds items at the start of a list.
    Prepend(Vec<PathStep>, Vec<Yaml>),
    /// Adds items at the end of a list, or in place of a null.
    Append(Vec<PathStep>, Vec<Yaml>),
    Remove(Vec<PathStep>),
}
