//! The terminal: its size, and the text that fits.

use rustix::termios::tcgetwinsize;
use std::{
    io::{self, IsTerminal, Write},
    iter,
};

/// Size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

impl Size {
    /// The size of a terminal that does not report it.
    const USUAL: Self = Self {
        columns: 80,
        rows: 24,
    };

    /// A log or a pipe: lines of readable length, and no last row.
    const PLAIN: Self = Self {
        columns: 110,
        rows: usize::MAX,
    };

    /// The current size of the terminal, if standard output is one.
    pub(super) fn now() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return Self::PLAIN;
        }
        match tcgetwinsize(&stdout) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Self {
                columns: size.ws_col.into(),
                rows: size.ws_row.into(),
            },
            _ => Self::USUAL,
        }
    }
}

/// Phrases on as many lines as they need, each one whole if it can be, below each other at `indent`.
pub(super) fn wrap(indent: usize, gap: &str, phrases: &[&str], columns: usize) -> String {
    let mut text = String::new();
    let mut column = indent;
    for (n, phrase) in phrases.iter().enumerate() {
        let length = phrase.chars().count();
        if n > 0 && column + gap.len() + length > columns {
            text.push('\n');
            text.extend(iter::repeat_n(' ', indent));
            column = indent;
        } else if n > 0 {
            text.push_str(gap);
            column += gap.len();
        }
        text.push_str(phrase);
        column += length;
    }
    text
}

/// The beginning of a line that is too long.
pub(super) fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept = line.chars().take(columns.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// Replaces the text on the screen.
pub(super) fn draw(text: &str, size: Size) -> io::Result<()> {
    print(&frame(text, size))
}

/// The escape sequences that replace the text on the screen, cut to the size.
fn frame(text: &str, size: Size) -> String {
    let mut frame = String::from(HOME);
    // The last row stays empty: a line that ends there would scroll the first one away.
    for line in text.lines().take(size.rows.saturating_sub(1)) {
        frame.push_str(&cut(line, size.columns));
        // Each line erases the rest of the old one, so that nothing flickers.
        frame.push_str(ERASE_LINE);
        frame.push('\n');
    }
    frame.push_str(ERASE_BELOW);
    frame
}

/// Clears the screen and hides the cursor.
pub(super) fn begin() -> io::Result<()> {
    print("\x1b[2J\x1b[?25l")
}

/// Shows the cursor again.
pub(super) fn end() -> io::Result<()> {
    print("\x1b[?25h\n")
}

/// Writes a text to standard output, which may be closed.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

const HOME: &str = "\x1b[H";
const ERASE_LINE: &str = "\x1b[K";
const ERASE_BELOW: &str = "\x1b[J";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_that_do_not_fit_are_put_below() {
        let phrases = ["aaaa", "bb", "cccccccc"];
        assert_eq!(wrap(2, "  ", &phrases, 20), "aaaa  bb  cccccccc");
        assert_eq!(wrap(2, "  ", &phrases, 19), "aaaa  bb\n  cccccccc");
        assert_eq!(wrap(2, " ", &phrases, 5), "aaaa\n  bb\n  cccccccc");
    }

    #[test]
    fn a_frame_fits_the_terminal() {
        let text = format!("{}\n", "x".repeat(100)).repeat(40);
        let frame = frame(&text, Size::USUAL);
        let lines = frame.strip_prefix(HOME).unwrap().lines();
        let lines: Vec<_> = lines.take_while(|line| *line != ERASE_BELOW).collect();
        assert_eq!(lines.len(), 23);
        for line in lines {
            let line = line.strip_suffix(ERASE_LINE).unwrap();
            assert_eq!(line.chars().count(), 80);
        }
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut(&"é".repeat(200), 80).chars().count(), 80);
    }
}
