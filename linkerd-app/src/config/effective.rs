//! The effective configuration, variable by variable, as `linkerd-proxy env` prints it.

use super::{
    mask::masked,
    variables::{Variable, VariableStatus},
};
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Write};

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
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Environment => "environment",
            Self::Default => "default",
            Self::Derived => "derived",
        })
    }
}

/// The variables for `/state`, secrets masked. Variables without an effect are left out.
pub fn inspect_effective(values: &[EffectiveValue]) -> Value {
    values
        .iter()
        .filter(|row| row.variable.status != VariableStatus::Ignored)
        .map(|row| {
            let name = row.variable.name;
            let value = row.value.as_deref().map(|value| masked(name, value));
            json!({ "name": name, "value": value, "source": row.source.to_string() })
        })
        .collect()
}

/// Prints one line for each variable: name, value, source. Line breaks are escaped, and long values such as
/// certificates are cut. Variables without an effect are left out.
pub fn print_effective(values: &[EffectiveValue], out: &mut impl Write) -> io::Result<()> {
    let rows: Vec<_> = values
        .iter()
        .filter(|row| row.variable.status != VariableStatus::Ignored)
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
    for (name, value, source) in rows {
        writeln!(out, "{name:names$}  {value:width$}  {source}")?;
    }
    Ok(())
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
