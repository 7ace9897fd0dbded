//! Lines and columns of positions in a text.

/// The column of a position, from 0.
pub(super) fn column(text: &str, at: usize) -> usize {
    let line = &text[line_start(text, at)..at];
    line.trim_start_matches('\u{feff}').chars().count()
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The end of a position's line, and whether there is a line end before it. A position after a line end is such an end.
pub(super) fn line_end(text: &str, at: usize) -> (usize, bool) {
    if at > 0 && text[..at].ends_with('\n') {
        return (at, true);
    }
    match text[at..].find('\n') {
        Some(end) => (at + end + 1, true),
        None => (text.len(), false),
    }
}
