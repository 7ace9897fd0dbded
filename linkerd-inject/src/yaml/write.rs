//! Values as text: in block style, or in one line with braces.

use super::value::{Yaml, reads_as_string};
use std::fmt::Write;

/// Writes the entry of a block map, with its line ends.
pub(super) fn block_entry(key: &str, value: &Yaml, column: usize, out: &mut String) {
    pad(column, out);
    entry(key, value, column, out);
}

/// Writes the item of a block list, with its line ends.
pub(super) fn block_item(value: &Yaml, column: usize, out: &mut String) {
    pad(column, out);
    out.push_str("- ");
    match value {
        Yaml::Map(fields) if !fields.is_empty() => {
            for (n, (key, value)) in fields.iter().enumerate() {
                if n > 0 {
                    pad(column + 2, out);
                }
                entry(key, value, column + 2, out);
            }
        }
        Yaml::Str(text) => {
            scalar(text, out);
            out.push('\n');
        }
        value => {
            flow(value, out);
            out.push('\n');
        }
    }
}

/// Writes a value in one line, as JSON, which is YAML in braces.
pub(super) fn flow(value: &Yaml, out: &mut String) {
    match value {
        Yaml::Null => out.push_str("null"),
        Yaml::Str(text) => quoted(text, out),
        Yaml::Plain(text) => out.push_str(text),
        Yaml::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                flow(item, out);
            }
            out.push(']');
        }
        Yaml::Map(fields) => {
            out.push('{');
            for (n, (key, value)) in fields.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                flow_entry(key, value, out);
            }
            out.push('}');
        }
    }
}

/// Writes the entry of a map in braces.
pub(super) fn flow_entry(key: &str, value: &Yaml, out: &mut String) {
    quoted(key, out);
    out.push_str(": ");
    flow(value, out);
}

fn entry(key: &str, value: &Yaml, column: usize, out: &mut String) {
    scalar(key, out);
    out.push(':');
    match value {
        Yaml::Map(fields) if !fields.is_empty() => {
            out.push('\n');
            for (key, value) in fields {
                block_entry(key, value, column + 2, out);
            }
        }
        Yaml::List(items) if !items.is_empty() => {
            out.push('\n');
            for item in items {
                block_item(item, column, out);
            }
        }
        Yaml::Str(text) if is_lines(text) => {
            out.push_str(" |\n");
            for line in text.lines() {
                pad(column + 2, out);
                out.push_str(line);
                out.push('\n');
            }
        }
        Yaml::Str(text) => {
            out.push(' ');
            scalar(text, out);
            out.push('\n');
        }
        value => {
            out.push(' ');
            flow(value, out);
            out.push('\n');
        }
    }
}

/// Whether a text is written as a literal block, such as certificates.
fn is_lines(text: &str) -> bool {
    let is_simple = |line: &str| {
        let visible = |c: char| c == ' ' || c.is_ascii_graphic();
        !line.is_empty() && !line.starts_with(' ') && line.chars().all(visible)
    };
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.contains('\r')
        && text.lines().count() > 1
        && text.lines().all(is_simple)
}

fn scalar(text: &str, out: &mut String) {
    let first = |c: char| c.is_ascii_alphanumeric() || "/.$(_".contains(c);
    let other = |c: char| c.is_ascii_alphanumeric() || "/._-$()=:".contains(c);
    let is_simple = text.starts_with(first) && text.chars().all(other) && !text.ends_with(':');
    match is_simple && reads_as_string(text) {
        true => out.push_str(text),
        false => quoted(text, out),
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn pad(column: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', column));
}
