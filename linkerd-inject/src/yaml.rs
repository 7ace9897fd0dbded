//! YAML with the position of each node in the text, so that parts of a text can be changed.

mod change;
mod edit;
mod merge;
mod parse;
mod scalar;
mod value;
mod write;

pub(crate) use self::change::{Change, PathStep};
pub(crate) use self::edit::{apply, merged};
pub(crate) use self::parse::{Node, NodeKind, parse};
pub(crate) use self::value::Yaml;
