//! Values of labels: the closed sets of linkerd2-proxy, and the comparison of scrapes with them.

use crate::families::{Scraped, expanded};
use std::collections::BTreeSet;

/// Closed sets of values, read from `values.txt`.
pub struct ClosedValues(Vec<ClosedSet>);

struct ClosedSet {
    family: String,
    label: String,
    values: BTreeSet<String>,
}

impl ClosedValues {
    pub fn read() -> Self {
        Self::of(include_str!("values.txt"))
    }

    fn of(text: &str) -> Self {
        let lines = text.lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sets = lines.flat_map(|line| {
            let (head, values) = line
                .split_once(" = ")
                .or_else(|| line.split_once(" + "))
                .unwrap();
            let (families, label) = head.split_once(' ').unwrap();
            let values = values.split('|').map(str::trim);
            let values: BTreeSet<_> = values.map(|v| v.trim_matches('"').to_owned()).collect();
            let families = expanded(families).into_iter();
            families.map(move |family| ClosedSet {
                family,
                label: label.to_owned(),
                values: values.clone(),
            })
        });
        Self(sets.collect())
    }

    /// Values in the scrapes that are in none of the sets for their label.
    pub fn foreign(&self, scraped: &Scraped) -> BTreeSet<String> {
        let values = scraped.values().filter(|(family, label, value)| {
            let sets = self.0.iter().filter(|set| set.is_of(family, label));
            let mut sets = sets.peekable();
            sets.peek().is_some() && !sets.any(|set| set.values.contains(*value))
        });
        values
            .map(|(family, label, value)| format!("{family} {label} {value:?}"))
            .collect()
    }

    /// Sets whose label no family of the scrapes has.
    pub fn unused(&self, scraped: &Scraped) -> BTreeSet<String> {
        let unused = self.0.iter().filter(|set| {
            let mut values = scraped.values();
            !values.any(|(family, label, _)| set.is_of(family, label))
        });
        unused
            .map(|set| format!("{} {}", set.family, set.label))
            .collect()
    }
}

impl ClosedSet {
    fn is_of(&self, family: &str, label: &str) -> bool {
        self.label == label && is_like(&self.family, family)
    }
}

/// Whether a name is like a pattern, in which `*` stands for any text.
fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, rest)) => name.strip_prefix(before).is_some_and(|name| {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            let mut ends = ends;
            ends.any(|at| is_like(rest, &name[at..]))
        }),
    }
}

#[test]
fn a_value_of_our_own_invention_is_found() {
    let sets = ClosedValues::of("a_{b,c}_*_total error = \"\" | i/o\na_b_*_total error + ours\n");
    let foreign = |name: &str, value: &str| {
        let text = format!("# TYPE {name} counter\n{name}{{error=\"{value}\",x=\"y\"}} 1\n");
        let mut scraped = Scraped::default();
        scraped.add(&linkerd_tests::Metrics::parse(text));
        sets.foreign(&scraped).len()
    };
    for known in ["", "i/o", "ours"] {
        assert_eq!(foreign("a_b_x_total", known), 0, "{known}");
    }
    assert_eq!(foreign("a_c_x_total", "ours"), 1);
    assert_eq!(foreign("other_total", "ours"), 0, "its set is open");
}
