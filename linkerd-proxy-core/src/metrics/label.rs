//! Label sets, rendered once.

use std::{
    fmt::{self, Write},
    sync::Arc,
};

/// Labels in the text of the exposition format, such as `direction="outbound",peer="src"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(String);

impl Labels {
    /// No labels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label. The value is escaped; the name must be one that Prometheus allows, and is made so.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.extend(name.chars().map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => c,
            _ => '_',
        }));
        self.0.push_str("=\"");
        write!(Escaped(&mut self.0), "{value}").expect("writing to a string does not fail");
        self.0.push('"');
        self
    }

    /// Adds all labels of another set.
    pub fn and(mut self, other: &Labels) -> Self {
        if !self.0.is_empty() && !other.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&other.0);
        self
    }

    /// The rendered text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Labels to which nothing is added any more. Its copies share the text, and so do the families that have a series with
/// these labels: with 10,000 endpoints the text is most of what their series take.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelSet(Arc<str>);

impl LabelSet {
    /// These labels, and others to come.
    pub fn to_labels(&self) -> Labels {
        Labels(self.0.as_ref().to_owned())
    }

    /// The rendered text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Labels> for LabelSet {
    fn from(labels: Labels) -> Self {
        Self(labels.0.into())
    }
}

/// Escapes what the exposition format does not allow in a label's value.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
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

#[cfg(test)]
mod tests {
    use super::Labels;

    #[test]
    fn values_are_escaped_and_names_made_valid() {
        let labels = Labels::new()
            .with("a.b/c", "x\"y\\z\n")
            .and(&Labels::new().with("n", 5));
        assert_eq!(labels.as_str(), r#"a_b_c="x\"y\\z\n",n="5""#);
    }
}
