//! The labels of an endpoint, stored in few bytes: a proxy may know 10,000 endpoints with a dozen labels each.

use crate::metrics::{Labels, is_plain};
use serde::{Serialize, Serializer};
use std::{cmp::Ordering, iter::Peekable, slice::ChunksExact, sync::Arc};

/// Labels of an endpoint, sorted by key: those of its set, which all endpoints of an update share, and its own, which override them.
///
/// - **Bounds**: [`MAX_LABEL`] for a key and for a value, which are cut; [`MAX_TEXT`] for the labels of a set and for those of an
///   endpoint, of which the rest is left out.
#[derive(Clone, Debug, Default)]
pub struct EndpointLabels {
    of_set: SetLabels,
    own: LabelText,
}

/// Labels that the endpoints of a set have in common. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct SetLabels(Option<Arc<LabelText>>);

/// Labels as one text, and the ends of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LabelText {
    text: Box<str>,
    /// The end of each part: a key, its value, the next key, and so on.
    ends: Box<[u32]>,
    /// Whether metrics can write the labels without escaping.
    are_plain: bool,
}

/// A label of the control plane within [`MAX_LABEL`]: cut, with an ellipsis, if it is longer.
pub fn bounded_label(mut text: String) -> String {
    if text.len() > MAX_LABEL {
        let mut ends = (0..=MAX_LABEL).rev();
        let end = ends.find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

impl EndpointLabels {
    /// The labels of an endpoint of a set.
    pub fn of_set(set: &SetLabels, own: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            of_set: set.clone(),
            own: LabelText::of(own),
        }
    }

    /// The keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let of_set = self.of_set.0.iter().flat_map(|labels| labels.iter());
        Merged {
            under: of_set.peekable(),
            over: self.own.iter().peekable(),
        }
    }

    /// Adds the endpoint's labels to the labels of a series, with a prefix before each key.
    pub fn add_to(&self, labels: Labels, prefix: &str) -> Labels {
        let are_plain = |labels: &LabelText| labels.are_plain || labels.ends.is_empty();
        match are_plain(&self.own) && self.of_set.0.as_deref().is_none_or(are_plain) {
            true => labels.with_all_plain(prefix, self.iter()),
            false => labels.with_all(prefix, self.iter()),
        }
    }
}

impl PartialEq for EndpointLabels {
    fn eq(&self, other: &Self) -> bool {
        let same_set = match (&self.of_set.0, &other.of_set.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        (same_set && self.own == other.own) || self.iter().eq(other.iter())
    }
}

impl Eq for EndpointLabels {}

impl FromIterator<(String, String)> for EndpointLabels {
    /// The last value counts if a key occurs twice.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        Self::of_set(&SetLabels::default(), labels)
    }
}

impl FromIterator<(String, String)> for SetLabels {
    /// The last value counts if a key occurs twice.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let labels = LabelText::of(labels);
        Self((!labels.ends.is_empty()).then(|| Arc::new(labels)))
    }
}

impl LabelText {
    fn of(labels: impl IntoIterator<Item = (String, String)>) -> Self {
        let labels = labels.into_iter();
        let bounded = labels.map(|(key, value)| (bounded_label(key), bounded_label(value)));
        let mut sorted: Vec<_> = bounded.collect();
        // Stable, and cheap for a sorted list.
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(&mut later.1, &mut kept.1);
            }
            same
        });
        let mut length = 0;
        sorted.retain(|(key, value)| {
            length += key.len() + value.len();
            length <= MAX_TEXT
        });
        let mut text = String::with_capacity(length.min(MAX_TEXT));
        let mut ends = Vec::with_capacity(sorted.len() * 2);
        for part in sorted.iter().flat_map(|(key, value)| [key, value]) {
            text.push_str(part);
            ends.push(text.len() as u32);
        }
        Self {
            are_plain: sorted.iter().all(|(key, value)| is_plain(key, value)),
            text: text.into(),
            ends: ends.into(),
        }
    }

    fn iter(&self) -> LabelParts<'_> {
        LabelParts {
            text: &self.text,
            ends: self.ends.chunks_exact(2),
            start: 0,
        }
    }
}

/// The keys and values of a text.
#[derive(Clone)]
struct LabelParts<'a> {
    text: &'a str,
    ends: ChunksExact<'a, u32>,
    start: usize,
}

impl<'a> Iterator for LabelParts<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let ends = self.ends.next()?;
        let (middle, end) = (ends[0] as usize, ends[1] as usize);
        let start = std::mem::replace(&mut self.start, end);
        Some((&self.text[start..middle], &self.text[middle..end]))
    }
}

/// Two lists of labels, each sorted by key. Of a key in both, the value of `over` counts.
#[derive(Clone)]
struct Merged<'a, U: Iterator<Item = Label<'a>>, O: Iterator<Item = Label<'a>>> {
    under: Peekable<U>,
    over: Peekable<O>,
}

/// A key and its value.
type Label<'a> = (&'a str, &'a str);

impl<'a, U, O> Iterator for Merged<'a, U, O>
where
    U: Iterator<Item = Label<'a>>,
    O: Iterator<Item = Label<'a>>,
{
    type Item = Label<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.under.peek(), self.over.peek()) {
            (Some((under, _)), Some((over, _))) => under.cmp(over),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => self.under.next(),
            Ordering::Greater => self.over.next(),
            Ordering::Equal => {
                self.under.next();
                self.over.next()
            }
        }
    }
}

/// Bytes of a key or of a value: those of Kubernetes have 317 at most.
pub const MAX_LABEL: usize = 1024;

/// Bytes of all labels of a set, or of an endpoint alone.
const MAX_TEXT: usize = 16 * 1024;

impl Serialize for EndpointLabels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn are_what_a_map_of_them_is(labels: BTreeMap<String, String>) {
            let held: EndpointLabels = labels.clone().into_iter().collect();
            let shown: Vec<_> = held.iter().collect();
            let expected: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            prop_assert_eq!(shown, expected);
            prop_assert_eq!(serde_json::to_value(&held).unwrap(), serde_json::to_value(&labels).unwrap());
        }
    }

    proptest! {
        #[test]
        fn own_labels_override_those_of_the_set(
            set: BTreeMap<String, String>,
            own: BTreeMap<String, String>,
        ) {
            let labels = EndpointLabels::of_set(&set.clone().into_iter().collect(), own.clone());
            let mut expected = set;
            expected.extend(own);
            let alone: EndpointLabels = expected.clone().into_iter().collect();
            prop_assert!(labels == alone);
            prop_assert_eq!(serde_json::to_value(&labels).unwrap(), serde_json::to_value(&expected).unwrap());
        }
    }

    #[test]
    fn the_endpoints_of_a_set_share_its_labels_and_long_ones_are_cut() {
        let long = "ä".repeat(50_000);
        let set: SetLabels = [("long".to_owned(), long)].into_iter().collect();
        let one = EndpointLabels::of_set(&set, [("pod".to_owned(), "a".to_owned())]);
        let other = EndpointLabels::of_set(&set, []);
        assert!(Arc::ptr_eq(
            one.of_set.0.as_ref().unwrap(),
            other.of_set.0.as_ref().unwrap()
        ));
        let (_, value) = one.iter().next().unwrap();
        assert_eq!(value.len(), MAX_LABEL + '…'.len_utf8());
        let many = (0..1000).map(|n| (n.to_string(), "x".repeat(500)));
        let many: EndpointLabels = many.collect();
        assert!((20..40).contains(&many.iter().count()));
    }

    #[test]
    fn of_a_key_the_last_value_counts() {
        let pairs = [("b", "1"), ("a", "2"), ("b", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let labels: EndpointLabels = pairs.into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    }
}
