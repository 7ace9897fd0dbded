//! Limits for the length of texts from peers.

/// The longest start of a text of at most `max` bytes.
pub fn start(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The text, or its start of at most `max` bytes and an ellipsis.
pub fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(start(&text, max).len());
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_split() {
        assert_eq!(start("aä", 2), "a");
        assert_eq!(start("aä", 3), "aä");
        assert_eq!(start("ä", 1), "");
        assert_eq!(cut("aä".to_owned(), 2), "a…");
        assert_eq!(cut("aä".to_owned(), 3), "aä");
    }
}
