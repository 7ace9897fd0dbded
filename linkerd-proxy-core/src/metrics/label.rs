//! Label sets: as text, or as what their text is made of.

use std::{
    fmt::{self, Write},
    hash::{Hash, Hasher},
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
    pub fn with(self, name: &str, value: impl fmt::Display) -> Self {
        self.with_prefix("", name, value)
    }

    /// Adds a label whose name has two parts.
    pub fn with_prefix(mut self, prefix: &str, name: &str, value: impl fmt::Display) -> Self {
        self.comma();
        self.push_name(prefix);
        self.push_name(name);
        self.0.push_str("=\"");
        write!(Escaped(&mut self.0), "{value}").expect("writing to a string does not fail");
        self.0.push('"');
        self
    }

    /// Adds all labels of another set.
    pub fn and(self, other: &Labels) -> Self {
        self.and_text(&other.0)
    }

    /// The rendered text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes all labels out, and keeps the room.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn and_text(mut self, text: &str) -> Self {
        if !text.is_empty() {
            self.comma();
            self.0.push_str(text);
        }
        self
    }

    fn comma(&mut self) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
    }

    fn push_name(&mut self, name: &str) {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Almost all are, and a scrape may write those of 10,000 endpoints.
        if name.chars().all(is_valid) {
            return self.0.push_str(name);
        }
        let valid = name.chars().map(|c| if is_valid(c) { c } else { '_' });
        self.0.extend(valid);
    }
}

/// Labels to which nothing is added any more, as a series has them.
///
/// Its copies, and the families that have a series with these labels, share what it is made of: a text, or another set
/// and a text beside it, or what an application knows anyway. With 10,000 endpoints the texts were most of what their
/// series took; they are written when a scrape asks. Sets are equal if their texts are.
#[derive(Clone)]
pub struct LabelSet(Arc<dyn AddLabels>);

/// What labels can be made of whenever they are needed. They must always be the same.
pub trait AddLabels: Send + Sync + 'static {
    /// Adds the labels.
    fn add_to(&self, labels: Labels) -> Labels;
}

impl LabelSet {
    /// The labels that `source` makes.
    pub fn new(source: impl AddLabels) -> Self {
        Self(Arc::new(source))
    }

    /// These labels, and others to come.
    pub fn to_labels(&self) -> Labels {
        self.add_to(Labels(String::with_capacity(MOST)))
    }

    /// These labels, with others before them.
    pub fn after(&self, labels: Labels) -> Self {
        let (text, base) = (labels.0.into(), self.clone());
        Self::new(After { text, base })
    }

    /// These labels, with others behind them.
    pub fn and(&self, labels: Labels) -> Self {
        let (base, text) = (self.clone(), labels.0.into());
        Self::new(And { base, text })
    }

    /// Adds these labels to others.
    pub fn add_to(&self, labels: Labels) -> Labels {
        self.0.add_to(labels)
    }
}

impl From<Labels> for LabelSet {
    fn from(labels: Labels) -> Self {
        Self::new(Text(labels.0.into()))
    }
}

impl PartialEq for LabelSet {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
            || self.to_labels() == other.to_labels()
    }
}

impl Eq for LabelSet {}

impl Hash for LabelSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_labels().hash(state);
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LabelSet")
            .field(&self.to_labels().0)
            .finish()
    }
}

/// Labels as text.
struct Text(Box<str>);

impl AddLabels for Text {
    fn add_to(&self, labels: Labels) -> Labels {
        labels.and_text(&self.0)
    }
}

/// A text, and a set after it.
struct After {
    text: Box<str>,
    base: LabelSet,
}

impl AddLabels for After {
    fn add_to(&self, labels: Labels) -> Labels {
        self.base.add_to(labels.and_text(&self.text))
    }
}

/// A set, and a text after it.
struct And {
    base: LabelSet,
    text: Box<str>,
}

impl AddLabels for And {
    fn add_to(&self, labels: Labels) -> Labels {
        self.base.add_to(labels).and_text(&self.text)
    }
}

/// More bytes than most labels have.
const MOST: usize = 512;

/// Escapes what the exposition format does not allow in a label's value.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if !s.bytes().any(|b| matches!(b, b'\\' | b'"' | b'\n')) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn values_are_escaped_and_names_made_valid() {
        let labels = Labels::new()
            .with("a.b/c", "x\"y\\z\n")
            .and(&Labels::new().with("n", 5))
            .with_prefix("dst_", "d.e", "");
        assert_eq!(labels.as_str(), r#"a_b_c="x\"y\\z\n",n="5",dst_d_e="""#);
    }

    struct Number(u8);

    impl AddLabels for Number {
        fn add_to(&self, labels: Labels) -> Labels {
            labels.with("n", self.0)
        }
    }

    #[test]
    fn sets_with_the_same_text_are_the_same_whatever_they_are_made_of() {
        let made = LabelSet::new(Number(5)).after(Labels::new().with("peer", "dst"));
        let made = made.and(Labels::new().with("errno", "")).and(Labels::new());
        let text = r#"peer="dst",n="5",errno="""#;
        assert_eq!(made.to_labels().as_str(), text);
        let whole = LabelSet::from(made.to_labels());
        let hasher = RandomState::new();
        assert_eq!(
            (&made, hasher.hash_one(&made)),
            (&whole, hasher.hash_one(&whole))
        );
        assert_ne!(made, LabelSet::new(Number(5)));
        let none = LabelSet::from(Labels::new()).and(Labels::new().with("n", 5));
        assert_eq!(none, LabelSet::new(Number(5)));
    }
}
