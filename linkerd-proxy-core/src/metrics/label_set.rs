//! The labels of a series: a text, or a source that renders it.

use super::label::Labels;
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// The final labels of a series.
///
/// Clones, and all families with a series of these labels, share one source: a text, another set with a text beside it,
/// or an application's own value. With 10,000 endpoints, texts took most of the memory of their series; sources are rendered
/// during a scrape. Sets are equal if their texts are equal.
#[derive(Clone)]
pub struct LabelSet(Arc<dyn AddLabels>);

/// A source of labels, rendered on demand. It must always give the same labels.
pub trait AddLabels: Send + Sync + 'static {
    /// Adds the labels.
    fn add_to(&self, labels: Labels) -> Labels;
}

impl LabelSet {
    /// The labels of `source`.
    pub fn new(source: impl AddLabels) -> Self {
        Self(Arc::new(source))
    }

    /// The labels as text, to be extended.
    pub fn to_labels(&self) -> Labels {
        self.add_to(Labels::with_capacity())
    }

    /// These labels, after others.
    pub fn after(&self, labels: Labels) -> Self {
        let (text, base) = (labels.into_text(), self.clone());
        Self::new(After { text, base })
    }

    /// These labels, followed by others.
    pub fn and(&self, labels: Labels) -> Self {
        let (base, text) = (self.clone(), labels.into_text());
        Self::new(And { base, text })
    }

    /// Appends these labels to others.
    pub fn add_to(&self, labels: Labels) -> Labels {
        self.0.add_to(labels)
    }
}

impl From<Labels> for LabelSet {
    fn from(labels: Labels) -> Self {
        Self::new(Text(labels.into_text()))
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
            .field(&self.to_labels().as_str())
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

/// A text, followed by a set.
struct After {
    text: Box<str>,
    base: LabelSet,
}

impl AddLabels for After {
    fn add_to(&self, labels: Labels) -> Labels {
        self.base.add_to(labels.and_text(&self.text))
    }
}

/// A set, followed by a text.
struct And {
    base: LabelSet,
    text: Box<str>,
}

impl AddLabels for And {
    fn add_to(&self, labels: Labels) -> Labels {
        self.base.add_to(labels).and_text(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};

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
