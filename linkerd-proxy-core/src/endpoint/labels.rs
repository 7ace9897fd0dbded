//! The labels of an endpoint, stored in few bytes: a proxy may know 10,000 endpoints with a dozen labels each.

use crate::metrics::{Labels, is_plain};
use serde::{Serialize, Serializer};

/// Labels, sorted by key: one text, and the ends of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointLabels {
    text: Box<str>,
    /// The end of each part: a key, its value, the next key, and so on.
    ends: Box<[u32]>,
    /// Whether metrics can write the labels without escaping.
    are_plain: bool,
}

impl EndpointLabels {
    /// The keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let mut start = 0;
        let mut part = move |end: u32| {
            let part = &self.text[start..end as usize];
            start = end as usize;
            part
        };
        self.ends
            .chunks_exact(2)
            .map(move |ends| (part(ends[0]), part(ends[1])))
    }

    /// Adds the endpoint's labels to the labels of a series, with a prefix before each key.
    pub fn add_to(&self, labels: Labels, prefix: &str) -> Labels {
        match self.are_plain {
            true => labels.with_all_plain(prefix, self.iter()),
            false => labels.with_all(prefix, self.iter()),
        }
    }
}

impl FromIterator<(String, String)> for EndpointLabels {
    /// The last value counts if a key occurs twice. Labels beyond 4 GB of text are left out.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let mut sorted: Vec<_> = labels.into_iter().collect();
        // Stable, and cheap for a sorted list.
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(&mut later.1, &mut kept.1);
            }
            same
        });
        let length = sorted.iter().map(|(key, value)| key.len() + value.len());
        let mut text = String::with_capacity(length.sum());
        let mut ends = Vec::with_capacity(sorted.len() * 2);
        let are_plain = sorted.iter().all(|(key, value)| is_plain(key, value));
        for (key, value) in &sorted {
            let key_end = u32::try_from(text.len() + key.len());
            let end = u32::try_from(text.len() + key.len() + value.len());
            let (Ok(key_end), Ok(end)) = (key_end, end) else {
                break;
            };
            text.push_str(key);
            text.push_str(value);
            ends.extend([key_end, end]);
        }
        Self {
            text: text.into(),
            ends: ends.into(),
            are_plain,
        }
    }
}

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

    #[test]
    fn of_a_key_the_last_value_counts() {
        let pairs = [("b", "1"), ("a", "2"), ("b", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let labels: EndpointLabels = pairs.into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    }
}
