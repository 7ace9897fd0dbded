//! Families of linkerd2-proxy: the list, and the comparison of scrapes with it.

use linkerd_tests::Metrics;
use std::collections::{BTreeMap, BTreeSet};

/// Metric families of linkerd2-proxy, read from `incumbent.txt`.
pub struct Incumbent(BTreeMap<String, Listed>);

#[derive(Default)]
struct Listed {
    kind: String,
    bounds: Vec<String>,
    /// Patterns of label names, one for each label set.
    label_sets: Vec<Vec<String>>,
}

/// Families of one or several scrapes.
#[derive(Default)]
pub struct Scraped(BTreeMap<String, Family>);

#[derive(Default)]
struct Family {
    kind: String,
    bounds: Vec<String>,
    label_sets: BTreeSet<Vec<String>>,
    /// The values of each label.
    values: BTreeMap<String, BTreeSet<String>>,
}

impl Incumbent {
    pub fn read() -> Self {
        let mut groups: BTreeMap<&str, &str> = BTreeMap::new();
        let mut families: BTreeMap<String, Listed> = BTreeMap::new();
        let lines = include_str!("incumbent.txt").lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some((group, members)) = line.split_once(" = ") {
                groups.insert(group, members);
                continue;
            }
            let (head, labels) = line.split_once(" :").unwrap();
            let head: Vec<_> = head.split(' ').collect();
            let words = labels.split_whitespace();
            let words = words.map(|word| groups.get(word).copied().unwrap_or(word));
            let words: Vec<_> = words.flat_map(str::split_whitespace).collect();
            for name in expanded(head[0]) {
                let family = families.entry(name).or_default();
                family.kind = head[1].to_owned();
                let bounds = head.get(2).map(|bounds| groups[bounds]);
                family.bounds = strings(bounds.unwrap_or_default().split_whitespace());
                family.label_sets.push(strings(words.iter().copied()));
            }
        }
        Self(families)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    /// Differences between scraped and listed families, by family name.
    pub fn differences(&self, scraped: &Scraped) -> BTreeMap<String, String> {
        let rows = self.0.iter().filter_map(|(name, listed)| {
            let difference = match scraped.0.get(name) {
                None => Some("missing".to_owned()),
                Some(family) => listed.difference(family),
            };
            difference.map(|difference| (name.clone(), difference))
        });
        rows.collect()
    }
}

impl Listed {
    fn difference(&self, family: &Family) -> Option<String> {
        if self.kind != family.kind {
            return Some(format!("a {}, not a {}", family.kind, self.kind));
        }
        if self.bounds != family.bounds {
            return Some(format!("bounds {:?}, not {:?}", family.bounds, self.bounds));
        }
        let mut emitted = family.label_sets.iter();
        let foreign = emitted.find(|emitted| {
            let mut listed = self.label_sets.iter();
            !listed.any(|listed| fits(listed, emitted))
        });
        if let Some(foreign) = foreign {
            return Some(format!("labels {foreign:?}, not {:?}", self.label_sets));
        }
        let mut listed = self.label_sets.iter();
        let absent = listed.find(|listed| {
            let mut emitted = family.label_sets.iter();
            !emitted.any(|emitted| fits(listed, emitted))
        });
        absent.map(|absent| format!("no series with the labels {absent:?}"))
    }
}

impl Scraped {
    /// Each value of a label, with its family and label.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().flat_map(|(name, family)| {
            family.values.iter().flat_map(move |(label, values)| {
                let values = values.iter();
                values.map(move |value| (&**name, &**label, &**value))
            })
        })
    }

    /// Adds the families of a scrape.
    pub fn add(&mut self, metrics: &Metrics) {
        for line in metrics.text().lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
            {
                self.0.entry(name.to_owned()).or_default().kind = kind.to_owned();
            }
        }
        for (sample, labels) in metrics.samples() {
            let of_histogram = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| {
                let base = sample.strip_suffix(suffix)?;
                (self.0.get(base)?.kind == "histogram").then_some(base)
            });
            let family = self.0.entry(of_histogram.unwrap_or(sample).to_owned());
            let family = family.or_default();
            let bound = labels.iter().find(|(name, _)| name == "le");
            if let Some((_, bound)) = bound.filter(|(_, bound)| bound != "+Inf")
                && !family.bounds.contains(bound)
            {
                family.bounds.push(bound.clone());
            }
            let names = labels.iter().map(|(name, _)| &**name);
            let names = strings(names.filter(|name| *name != "le"));
            family.label_sets.insert(names);
            for (label, value) in labels.iter().filter(|(label, _)| label != "le") {
                let values = family.values.entry(label.clone()).or_default();
                values.insert(value.clone());
            }
        }
        // Registry histograms write `1.0` where others write `1`.
        for family in self.0.values_mut() {
            for bound in &mut family.bounds {
                if let Some(whole) = bound.strip_suffix(".0") {
                    *bound = whole.to_owned();
                }
            }
            let mut seen = BTreeSet::new();
            family.bounds.retain(|bound| seen.insert(bound.clone()));
        }
    }
}

/// Whether label names fit a pattern: see the head of `incumbent.txt`.
fn fits(pattern: &[String], names: &[String]) -> bool {
    let Some((first, pattern)) = pattern.split_first() else {
        return names.is_empty();
    };
    if let Some(prefix) = first.strip_suffix('*') {
        let own = names.iter().take_while(|name| name.starts_with(prefix));
        return fits(pattern, &names[own.count()..]);
    }
    let (label, optional) = match first.strip_suffix('?') {
        Some(label) => (label, true),
        None => (&**first, false),
    };
    match names.split_first() {
        Some((name, rest)) if label.split('|').any(|label| label == name) => fits(pattern, rest),
        _ => optional && fits(pattern, names),
    }
}

/// The names that a pattern with `{a,b}` expands to.
pub fn expanded(pattern: &str) -> Vec<String> {
    let parts = pattern.split_once('{');
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (choices, after))) = parts else {
        return vec![pattern.to_owned()];
    };
    let choices = choices.split(',');
    choices
        .flat_map(|choice| expanded(&format!("{before}{choice}{after}")))
        .collect()
}

fn strings<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    words.map(str::to_owned).collect()
}

/// Rows of the section "Differences" of `docs/metrics.md`: patterns of names.
pub fn documented_differences() -> BTreeSet<String> {
    let docs = include_str!("../../../docs/metrics.md");
    let (_, section) = docs.split_once("\n## Differences").unwrap();
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter_map(|row| row.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`'))
        .flat_map(|(pattern, _)| expanded(pattern))
        .collect()
}

#[test]
fn labels_that_are_missing_moved_or_added_are_found() {
    let listed = Listed {
        kind: "counter".to_owned(),
        bounds: Vec::new(),
        label_sets: vec![strings("a b? c|d e_*".split(' '))],
    };
    let difference = |labels: &str| {
        let label_sets = BTreeSet::from([strings(labels.split(' '))]);
        let (kind, bounds) = ("counter".to_owned(), Vec::new());
        listed.difference(&Family {
            kind,
            bounds,
            label_sets,
            values: BTreeMap::new(),
        })
    };
    for same in ["a b c", "a d", "a c e_1 e_2"] {
        assert_eq!(difference(same), None, "{same}");
    }
    for other in ["a", "b a c", "a c d", "a c e_1 x"] {
        assert!(difference(other).is_some(), "{other}");
    }
}
