//! YAML with the place of each node in the text, so that a text can be changed in part.

mod change;
mod edit;
mod parse;
mod value;
mod write;

pub(crate) use self::change::{Change, PathStep};
pub(crate) use self::edit::apply;
pub(crate) use self::parse::{Node, NodeKind, parse};
pub(crate) use self::value::Yaml;
