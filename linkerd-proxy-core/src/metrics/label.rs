//! Label sets: as text, or as a source that renders it.

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

    /// Adds a label. The value is escaped, and an invalid name is made valid.
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

    /// Adds labels with names from elsewhere, such as discovery, with a prefix before each name.
    ///
    /// Names that become equal once made valid (`a.b`, `a_b`) become one label, as a scraper refuses a series with a
    /// repeated name. The name that was valid already wins, else the first one.
    pub fn with_all<'a>(
        mut self,
        prefix: &str,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let mut cleaned = false;
        for (name, value) in labels.clone() {
            if is_valid(name) {
                self = self.with_prefix(prefix, name, value);
            } else {
                cleaned = true;
            }
        }
        if !cleaned {
            return self;
        }
        for (name, value) in labels.filter(|(name, _)| !is_valid(name)) {
            let mut valid = Self::new();
            valid.push_name(prefix);
            valid.push_name(name);
            if self.names().all(|name| name != valid.0) {
                self = self.with_prefix(prefix, name, value);
            }
        }
        self
    }

    /// Adds all labels of another set.
    pub fn and(self, other: &Labels) -> Self {
        self.and_text(&other.0)
    }

    /// Labels that were rendered before.
    pub(super) fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The rendered text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names and values, without their escapes.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            let (name, value) = rest.split_once("=\"")?;
            let (value, length) = unescaped(value)?;
            let end = name.len() + 2 + length + 1;
            rest = rest[end..].trim_start_matches(',');
            Some((name, value))
        })
    }

    /// Removes all labels, and keeps the capacity.
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
        // Almost all names are valid, and a scrape may write those of 10,000 endpoints.
        if is_valid(name) {
            return self.0.push_str(name);
        }
        let valid = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
        self.0.extend(valid);
    }

    /// The names in the text.
    fn names(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            let (name, value) = rest.split_once("=\"")?;
            let mut escaped = false;
            let end = value.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })?;
            rest = value[end + 1..].trim_start_matches(',');
            Some(name)
        })
    }
}

/// A value up to its closing quote, and the length of its escaped text.
fn unescaped(text: &str) -> Option<(String, usize)> {
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

fn is_valid(name: &str) -> bool {
    name.bytes().all(|c| is_allowed(c.into()))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The final labels of a series.
///
/// Clones, and all families with a series of these labels, share one source: a text, another set with a text beside it,
/// or an application's own value. With 10,000 endpoints the texts were most of the memory of their series; they are
/// rendered during a scrape. Sets are equal if their texts are.
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
        self.add_to(Labels(String::with_capacity(MOST)))
    }

    /// These labels, after others.
    pub fn after(&self, labels: Labels) -> Self {
        let (text, base) = (labels.0.into(), self.clone());
        Self::new(After { text, base })
    }

    /// These labels, followed by others.
    pub fn and(&self, labels: Labels) -> Self {
        let (base, text) = (self.clone(), labels.0.into());
        Self::new(And { base, text })
    }

    /// Appends these labels to others.
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

/// Longer than most labels, in bytes.
const MOST: usize = 512;

/// Escapes characters that the exposition format does not allow in a label's value.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // Without an early end, the compiler looks at many bytes at once.
        let escapes = |found, byte| found | matches!(byte, b'\\' | b'"' | b'\n');
        if !s.bytes().fold(false, escapes) {
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

    #[test]
    fn pairs_are_the_names_and_values_that_were_added() {
        let values = [
            ("a", "1"),
            ("b", ""),
            ("c", "x\"y\\z\n,d=\"e\""),
            ("f", "ü"),
        ];
        let labels = values.iter().fold(Labels::new(), |labels, (name, value)| {
            labels.with(name, value)
        });
        let pairs: Vec<_> = labels.pairs().collect();
        let expected = values.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(pairs, expected);
        assert_eq!(Labels::new().pairs().count(), 0);
    }
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn values_are_escaped_and_names_made_valid() {
        let labels = Labels::new()
            .with("a.b/c", "x\"y\\z\n")
            .and(&Labels::new().with("n", 5))
            .with_prefix("dst_", "d.e", "");
        assert_eq!(labels.as_str(), r#"a_b_c="x\"y\\z\n",n="5",dst_d_e="""#);
    }

    #[test]
    fn names_that_become_equal_are_one_label() {
        let all = [
            ("a.b", "1"),
            ("a/b", "2"),
            ("a_b", "3"),
            ("c.d", "4"),
            ("c/d", "5"),
        ];
        let labels = Labels::new().with("n", "x\",dst_c_d=");
        let labels = labels.with_all("dst_", all.into_iter());
        assert_eq!(
            labels.as_str(),
            r#"n="x\",dst_c_d=",dst_a_b="3",dst_c_d="4""#
        );
    }

    /// Reads labels as a scraper does, independently of the code that writes them.
    fn parse(text: &str) -> Vec<(String, String)> {
        let mut chars = text.chars().peekable();
        let mut labels = Vec::new();
        while chars.peek().is_some() {
            let name: String = chars.by_ref().take_while(|c| *c != '=').collect();
            assert_eq!(chars.next(), Some('"'), "{text}");
            let mut value = String::new();
            loop {
                match chars.next().expect(text) {
                    '"' => break,
                    '\\' => match chars.next() {
                        Some('n') => value.push('\n'),
                        Some(c) => value.push(c),
                        None => panic!("{text}"),
                    },
                    c => value.push(c),
                }
            }
            assert!(matches!(chars.next(), None | Some(',')), "{text}");
            labels.push((name, value));
        }
        labels
    }

    proptest! {
        #[test]
        fn no_names_of_others_make_a_series_that_a_scraper_refuses(
            others in prop::collection::btree_map("[ab._/é=\",\\\\]{0,4}", "[a=\",\\\\\n]{0,6}", 0..8),
            own in "[a=\",\\\\\n]{0,6}",
        ) {
            let all = others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let labels = Labels::new().with("own", &own).with_all("dst_", all);
            let parsed = parse(labels.as_str());
            let names: BTreeSet<_> = parsed.iter().map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(names.len(), parsed.len(), "{}", labels.as_str());
            let parsed: BTreeMap<_, _> = parsed.into_iter().collect();
            prop_assert_eq!(&parsed["own"], &own);
            for (name, value) in &others {
                let clean: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
                let shown = &parsed[&format!("dst_{clean}")];
                prop_assert!(*name != clean || shown == value, "a valid name counts");
            }
        }
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
