//! Regular expressions of the control plane.

use regex::{Regex, RegexBuilder};
use std::fmt;

/// A regular expression that must match the whole text.
///
/// Matching takes time linear in the text. A pattern that would need more than [`MAX_PATTERN_BYTES`] is refused.
#[derive(Clone)]
pub struct Pattern {
    /// The source text: patterns with the same text are equal.
    text: String,
    /// `None`: the text has no operators, and is compared.
    regex: Option<Regex>,
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no usable regular expression: {problem}")]
pub struct InvalidPattern {
    text: String,
    problem: String,
}

/// The memory that a compiled pattern may need, and the same amount again while it matches.
const MAX_PATTERN_BYTES: usize = 1 << 18;

impl Pattern {
    /// Compiles a pattern.
    pub fn new(text: &str) -> Result<Self, InvalidPattern> {
        if let Some(plain) = Self::plain(text) {
            return Ok(plain);
        }
        // Parsed alone first: within the group, `a)(b` would be valid.
        regex_syntax::parse(text).map_err(|error| InvalidPattern::new(text, &error))?;
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|error| InvalidPattern::new(text, &error))?;
        Ok(Self {
            text: text.to_owned(),
            regex: Some(regex),
        })
    }

    /// A pattern without operators, which is compared and not compiled, as many paths of profiles. `None` if it has any.
    pub fn plain(text: &str) -> Option<Self> {
        (!text.contains(OPERATORS)).then(|| Self {
            text: text.to_owned(),
            regex: None,
        })
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        match &self.regex {
            None => self.text == text,
            Some(regex) => regex.is_match(text),
        }
    }
}

impl InvalidPattern {
    fn new(text: &str, error: &impl fmt::Display) -> Self {
        Self {
            text: text.chars().take(MAX_SHOWN).collect(),
            // The parser shows the text with a mark below it; the last line of its error has the problem.
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

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

/// Characters with a special meaning outside of a group or class.
const OPERATORS: [char; 14] = [
    '\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$',
];

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
    fn without_operators_the_text_is_compared() {
        let text = "/a-b_c~d/%20&e=#,;:@!'é";
        let pattern = Pattern::plain(text).unwrap();
        assert_eq!(Pattern::new(text), Ok(pattern.clone()));
        // The same text as a regular expression matches the same paths.
        let regex = Pattern::new(&format!("(?:{text})")).unwrap();
        for (other, matches) in [(text, true), ("/a-b", false), ("", false)] {
            assert_eq!(pattern.matches(other), matches, "{other}");
            assert_eq!(regex.matches(other), matches, "{other}");
        }
        for operators in ["/a.", "^/a", "/a$", "/[ab]", "/a{2}", "\\/", "(a)", "a|b"] {
            assert!(Pattern::plain(operators).is_none(), "{operators}");
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
