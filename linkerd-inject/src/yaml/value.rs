//! A YAML value without its place.

use super::write;

/// A value as Kubernetes reads it: the types of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    Null,
    Str(String),
    /// A number or a boolean, as written.
    Plain(String),
    List(Vec<Yaml>),
    /// In the order of the text.
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    pub(crate) fn str(text: impl Into<String>) -> Self {
        Self::Str(text.into())
    }

    pub(crate) fn plain(value: impl ToString) -> Self {
        Self::Plain(value.to_string())
    }

    pub(crate) fn map<const N: usize>(fields: [(&str, Yaml); N]) -> Self {
        Self::Map(fields.map(|(key, value)| (key.to_owned(), value)).into())
    }

    pub(crate) fn strings<I: IntoIterator<Item = S>, S: Into<String>>(items: I) -> Self {
        Self::List(items.into_iter().map(Self::str).collect())
    }

    /// Adds a field to a map.
    pub(crate) fn push(&mut self, key: &str, value: Yaml) {
        if let Self::Map(fields) = self {
            fields.push((key.to_owned(), value));
        }
    }

    /// A plain scalar of a text.
    pub(super) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            text if write::reads_as_string(text) => Self::str(text),
            text => Self::plain(text),
        }
    }
}
