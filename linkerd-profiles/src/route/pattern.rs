//! Regular expressions of the control plane.

use regex::{Regex, RegexBuilder};
use std::fmt;

/// A regular expression that a text matches as a whole.
///
/// Matching takes time linear in the text. A pattern that would need more than [`MAX_PATTERN_BYTES`] is refused.
#[derive(Clone)]
pub struct Pattern {
    /// As it was written: patterns of the same text are equal.
    text: String,
    regex: Regex,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no usable regular expression: {problem}")]
pub struct InvalidPattern {
    text: String,
    problem: String,
}

/// The memory that a compiled pattern may need, and as much again while it matches.
const MAX_PATTERN_BYTES: usize = 1 << 18;

impl Pattern {
    /// Compiles a pattern.
    pub fn new(text: &str) -> Result<Self, InvalidPattern> {
        // On its own first: within the group, `a)(b` would be valid.
        regex_syntax::parse(text).map_err(|error| InvalidPattern::new(text, &error))?;
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|error| InvalidPattern::new(text, &error))?;
        let text = text.to_owned();
        Ok(Self { text, regex })
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl InvalidPattern {
    fn new(text: &str, error: &impl fmt::Display) -> Self {
        Self {
            text: text.chars().take(MAX_SHOWN).collect(),
            // The parser draws the text with a mark below; its last line says what is wrong.
            problem: error.to_string().lines().last().unwrap_or_default().into(),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

/// Characters of a pattern in an error.
const MAX_SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_must_match() {
        let pattern = Pattern::new("/a|/ab").unwrap();
        for (text, matches) in [("/a", true), ("/ab", true), ("/abc", false), ("x/a", false)] {
            assert_eq!(pattern.matches(text), matches, "{text}");
        }
    }

    #[test]
    fn patterns_that_are_broken_or_too_large_are_refused_by_name() {
        for text in ["(", "a)(b", "(?P<", r"\w{1000}{1000}", "(a{500}){500}"] {
            let error = Pattern::new(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn what_takes_others_exponential_time_takes_none() {
        let pattern = Pattern::new("(a*)*b").unwrap();
        assert!(!pattern.matches(&"a".repeat(100_000)));
    }
}
