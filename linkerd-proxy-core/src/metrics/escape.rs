//! The escapes of a label's value.

use std::fmt::{self, Write};

/// Whether a value has characters that need an escape.
pub(super) fn has_escapes(value: &str) -> bool {
    // Without an early end, the compiler processes many bytes at once.
    let escapes = |found, byte| found | matches!(byte, b'\\' | b'"' | b'\n');
    value.bytes().fold(false, escapes)
}

/// Escapes characters that the exposition format does not allow in a label's value.
pub(super) struct Escaped<'a>(pub(super) &'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if !has_escapes(s) {
            self.0.push_str(s);
            return Ok(());
        }
        for c in s.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// Reads an escaped value up to its closing quote: the value, and the length of its escaped text.
pub(super) fn unescaped(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (end, '"') => return Some((value, end)),
            (_, '\\') => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            (_, c) => value.push(c),
        }
    }
}
