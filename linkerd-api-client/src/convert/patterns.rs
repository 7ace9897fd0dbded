//! Regular expressions of a message.

use linkerd_profiles::{InvalidPattern, Pattern};
use std::collections::HashMap;

/// The regular expressions of a message. Each is compiled once; there may be [`MAX_PATTERNS`].
#[derive(Default)]
pub(super) struct Patterns(HashMap<String, Pattern>);

/// A regular expression that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    /// The expression is not valid, or too large.
    #[error(transparent)]
    Invalid(#[from] InvalidPattern),
    /// The message has more regular expressions than this.
    #[error("there are more than {0} regular expressions")]
    TooMany(usize),
}

/// The most regular expressions for one protocol of a policy, or for a profile; each may need a few hundred KB.
const MAX_PATTERNS: usize = 256;

impl Patterns {
    /// The pattern of a text. A text without operators does not count.
    pub(super) fn get(&mut self, text: String) -> Result<Pattern, PatternError> {
        if let Some(plain) = Pattern::plain(&text) {
            return Ok(plain);
        }
        if let Some(known) = self.0.get(&text) {
            return Ok(known.clone());
        }
        if self.0.len() == MAX_PATTERNS {
            return Err(PatternError::TooMany(MAX_PATTERNS));
        }
        let pattern = Pattern::new(&text)?;
        self.0.insert(text, pattern.clone());
        Ok(pattern)
    }
}
