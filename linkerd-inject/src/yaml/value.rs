//! A YAML value without its position.

use super::scalar::{PlainType, integer};

/// A value as read by Kubernetes: the types of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Yaml {
    Null,
    Str(String),
    /// A number or a boolean, as written; or the key `<<`.
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

    /// The boolean, if it is one.
    pub(crate) fn boolean(&self) -> Option<bool> {
        match self {
            Self::Plain(text) => match PlainType::of(text) {
                PlainType::Bool(value) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// The whole number, if it is one.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Self::Plain(text) => integer(text),
            _ => None,
        }
    }

    /// The value of a plain scalar with this text.
    pub(super) fn of_plain(text: &str) -> Self {
        match PlainType::of(text) {
            PlainType::Null => Self::Null,
            PlainType::Text => Self::str(text),
            PlainType::Bool(_) | PlainType::Number | PlainType::Merge => Self::plain(text),
        }
    }
}

/// Whether all readers take a plain scalar of this text as a string, even readers of YAML 1.1.
pub(super) fn reads_as_string(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let is_word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    let number = text.trim_start_matches(['+', '-', '.']);
    let special = [".inf", ".nan"].map(|word| word.trim_start_matches('.'));
    let is_special = special.iter().any(|word| number.eq_ignore_ascii_case(word));
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number
            .chars()
            .all(|c| c.is_ascii_hexdigit() || "xXoO_.+-:eE".contains(c));
    !(text.is_empty() || text == "~" || is_word || is_special || is_number)
}
