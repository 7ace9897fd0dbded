//! The effective configuration, variable by variable, as `linkerd-proxy env` prints it.

use super::{
    mask::masked,
    variables::{Variable, VariableStatus},
};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// A variable, its effective value, and the value's source.
#[derive(Clone, Debug)]
pub struct EffectiveValue {
    /// The row of the table.
    pub variable: &'static Variable,
    /// The value in the variable's grammar. `None`: unset, and without a default.
    pub value: Option<String>,
    /// The source.
    pub source: ValueSource,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The environment.
    Environment,
    /// The table's default.
    Default,
    /// Other variables.
    Derived,
    /// `run --mesh`, which sets the variables of its control plane.
    MeshFile,
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Environment => "environment",
            Self::Default => "default",
            Self::Derived => "derived",
            Self::MeshFile => "run --mesh",
        })
    }
}

/// The variables for `/state`, secrets masked. Variables without an effect are left out.
pub fn inspect_effective(values: &[EffectiveValue]) -> Value {
    as_json(values, |name, value| masked(name, value))
}

/// The variables with their whole values, for the user whose environment it is. Variables without an effect are left out.
pub fn effective_json(values: &[EffectiveValue]) -> Value {
    as_json(values, |_, value| value.into())
}

fn as_json<'a>(
    values: &'a [EffectiveValue],
    shown: impl Fn(&str, &'a str) -> Cow<'a, str>,
) -> Value {
    with_effect(values)
        .map(|row| {
            let name = row.variable.name;
            let value = row.value.as_deref().map(|value| shown(name, value));
            json!({ "name": name, "value": value, "source": row.source.to_string() })
        })
        .collect()
}

fn with_effect(values: &[EffectiveValue]) -> impl Iterator<Item = &EffectiveValue> {
    values
        .iter()
        .filter(|row| row.variable.status != VariableStatus::Ignored)
}

/// One line for each variable: name, value, source. Line breaks are escaped, and long values such as
/// certificates are cut. Variables without an effect are left out.
pub fn effective_text(values: &[EffectiveValue]) -> String {
    let rows: Vec<_> = with_effect(values)
        .map(|row| {
            (
                row.variable.name,
                row.value.as_deref().map_or_else(|| "-".to_owned(), cell),
                row.source,
            )
        })
        .collect();
    let names = rows
        .iter()
        .map(|(name, ..)| name.len())
        .max()
        .unwrap_or_default();
    let width = rows
        .iter()
        .map(|(_, value, _)| value.chars().count())
        .max()
        .unwrap_or_default();
    rows.iter()
        .map(|(name, value, source)| format!("{name:names$}  {value:width$}  {source}\n"))
        .collect()
}

fn cell(value: &str) -> String {
    if value.is_empty() {
        return "\"\"".to_owned();
    }
    let escaped: String = value.chars().flat_map(escape).collect();
    match escaped.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}... ({} bytes)", &escaped[..end], value.len()),
        None => escaped,
    }
}

/// Control characters would break the table or the terminal.
fn escape(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = escaped.is_none().then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// Fits a token, a list of networks or a backoff, but no certificate.
const MAX_CELL: usize = 72;
