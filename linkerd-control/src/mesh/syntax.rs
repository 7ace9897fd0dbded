//! Explanations of YAML syntax errors for the author of the file.

use super::position::Position;

/// The displayed reason for an error of the parser: the likely mistake, and the parser's message.
///
/// `open` are the starts of the lists and fields that contain the position, the innermost last.
pub(super) fn reason(words: &str, text: &str, at: Position, open: &[Position]) -> String {
    match likely(words, text, at, open) {
        Some(mistake) => format!("{mistake} ({words})"),
        None => words.to_owned(),
    }
}

fn likely(words: &str, text: &str, at: Position, open: &[Position]) -> Option<String> {
    if words.starts_with("tabs ") || words.contains("found a tab") {
        return Some("a tab indents this line or the next one; use spaces".to_owned());
    }
    if words.contains("did not find expected") {
        return misaligned(text, at, open);
    }
    if words.starts_with("mapping values are not allowed") {
        let mistake = match is_deeper_than_the_line_before(text, at) {
            true => {
                "this line is indented deeper than the one before, which already has a value or lacks its `:`"
            }
            false => "a `:` with a space in a value needs quotes around the value",
        };
        return Some(mistake.to_owned());
    }
    let mistake = match words {
        "simple key expected ':'" => {
            "expected `name: value` or `- item`; does a space lack after the `:` or `-`?"
        }
        "illegal placement of ':' indicator" => "is a `]` or `}` missing before this?",
        "invalid indentation in multiline quoted scalar" => {
            "is the closing quote missing on a line before this?"
        }
        _ => return None,
    };
    Some(mistake.to_owned())
}

/// A line whose indentation matches none of the items that it could continue.
fn misaligned(text: &str, at: Position, open: &[Position]) -> Option<String> {
    let found = indentation(text, at.line)?;
    let begun = open.last()?;
    let expected = begun.column.checked_sub(1)?;
    (found != expected).then(|| {
        format!(
            "{found} spaces indent this line, and {expected} those that it could continue, from line {} on",
            begun.line
        )
    })
}

fn is_deeper_than_the_line_before(text: &str, at: Position) -> bool {
    let before = (1..at.line).rev();
    let mut before = before.filter_map(|line| indentation(text, line));
    before.next() < indentation(text, at.line)
}

/// The indentation of the text of a line; lines count from 1. `None` for a line without text.
fn indentation(text: &str, line: u64) -> Option<u64> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let line = text.lines().nth(index)?;
    // An item begins after its hyphen.
    let text = line.trim_start_matches([' ', '-']);
    let has_text = !text.is_empty() && !text.starts_with('#');
    has_text.then(|| (line.len() - text.len()) as u64)
}
