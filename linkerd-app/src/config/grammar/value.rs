//! Grammars of values in general, and the errors of their parsers.

/// The grammar of a variable's text.
pub trait Grammar {
    /// The type of its values.
    type Value;
    /// The name of the grammar in the documentation.
    const NAME: &'static str;
    /// The accepted form, for error messages.
    const EXPECTED: &'static str;

    /// Parses a value.
    fn parse(text: &str) -> Result<Self::Value, InvalidValue>;
}

/// The text does not follow the grammar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidValue {
    /// A suggested value or a more precise error, where the accepted form is not enough.
    pub fix: Option<String>,
}

impl InvalidValue {
    /// An error with a suggested fix.
    pub fn fix(fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
        }
    }
}

/// A grammar in a row of the table: without the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct ValueKind {
    /// The name of the grammar.
    pub name: &'static str,
    /// The accepted form.
    pub expected: &'static str,
    /// Checks a text against the grammar.
    pub check: fn(&str) -> Result<(), InvalidValue>,
}

impl ValueKind {
    /// The grammar `G`.
    pub const fn of<G: Grammar>() -> Self {
        Self {
            name: G::NAME,
            expected: G::EXPECTED,
            check: |text| G::parse(text).map(drop),
        }
    }
}

/// The items of a comma-separated list, trimmed, without the empty ones.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}
