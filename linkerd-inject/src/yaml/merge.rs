//! Maps with the entries that `<<` merges into them.
//!
//! An entry of the map itself takes precedence over a merged one, and so does an earlier map of a list over a later one.
//! Readers differ only where an entry stands before `<<` ([`Node::ambiguity`]): kubectl then takes the merged one.

use super::{Node, NodeKind, Yaml, scalar::MERGE};
use std::collections::{HashMap, HashSet};

impl Node {
    /// The field of a map, of its own or merged; the last one if there are several.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let own = self.own(key);
        own.or_else(|| self.merged().find_map(|map| map.get(key)))
    }

    /// The node at a path of field names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// All entries of a map: its own, then merged ones with other keys.
    pub(crate) fn entries(&self) -> Vec<(&Node, &Node)> {
        let own = self.fields().iter().filter(|(key, _)| !is_merge(key));
        let mut entries: Vec<_> = own.map(|(key, value)| (key, value)).collect();
        let mut known: HashSet<_> = entries.iter().map(|(key, _)| key.text()).collect();
        let merged = self.merged().flat_map(Node::entries);
        entries.extend(merged.filter(|(key, _)| known.insert(key.text())));
        entries
    }

    /// The key `<<` that merges a field; `None` if the map has the field itself, or not at all.
    pub(crate) fn merges(&self, key: &str) -> Option<&Node> {
        if self.own(key).is_some() || self.get(key).is_none() {
            return None;
        }
        let merge = self.fields().iter().find(|(key, _)| is_merge(key));
        merge.map(|(key, _)| key)
    }

    /// The first key in a tree whose value depends on the reader: it stands before a `<<` that has another value for it.
    pub(crate) fn ambiguity(&self) -> Option<&Node> {
        match &self.kind {
            NodeKind::Scalar(_) => None,
            NodeKind::List { items, .. } => items.iter().find_map(Self::ambiguity),
            NodeKind::Map { fields, .. } => {
                let last = fields.iter().rposition(|(key, _)| is_merge(key));
                let merged = match last {
                    Some(_) => self.merged_fields(),
                    None => HashMap::new(),
                };
                let is_disputed = |(key, value): &&(Node, Node)| {
                    let other = key.text().and_then(|name| merged.get(name));
                    is_merge(key) || other.is_some_and(|other| other.to_yaml() != value.to_yaml())
                };
                let own = fields[..last.unwrap_or(0)].iter().find(is_disputed);
                own.map(|(key, _)| key)
                    .or_else(|| fields.iter().find_map(|(_, value)| value.ambiguity()))
            }
        }
    }

    fn merged_fields(&self) -> HashMap<&str, &Node> {
        let mut fields = HashMap::new();
        for (key, value) in self.merged().flat_map(Node::entries) {
            if let Some(name) = key.text() {
                fields.entry(name).or_insert(value);
            }
        }
        fields
    }

    /// The maps that are merged, those of higher precedence first.
    fn merged(&self) -> impl Iterator<Item = &Node> {
        let merges = self.fields().iter().filter(|(key, _)| is_merge(key));
        merges.flat_map(|(_, value)| match &value.kind {
            NodeKind::List { items, .. } => items.as_slice(),
            _ => std::slice::from_ref(value),
        })
    }
}

/// Whether a key is `<<` without quotes.
fn is_merge(key: &Node) -> bool {
    matches!(&key.kind, NodeKind::Scalar(Yaml::Plain(text)) if text == MERGE)
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn entries_are_those_that_kubectl_reads() {
        let text = "b: &b {x: b, y: b}\nc: &c {y: c, z: c}\n\
                    map: {<<: [*b, *c], x: own, \"<<\": quoted}\nnested: {<<: {<<: *c, w: n}}\n";
        let documents = parse(text).unwrap();
        let at = |path: &[&str]| documents[0].at(path).and_then(super::Node::text);
        assert_eq!(at(&["map", "x"]), Some("own"));
        assert_eq!(at(&["map", "y"]), Some("b"));
        assert_eq!(at(&["map", "z"]), Some("c"));
        assert_eq!(at(&["nested", "z"]), Some("c"));
        let map = documents[0].get("map").unwrap();
        let keys: Vec<_> = map
            .entries()
            .iter()
            .filter_map(|(key, _)| key.text())
            .collect();
        assert_eq!(keys, ["x", "<<", "y", "z"]);
        assert!(map.merges("y").is_some() && map.merges("x").is_none());
        assert!(map.merges("none").is_none());
        assert!(documents[0].ambiguity().is_none());
    }

    #[test]
    fn values_that_readers_dispute_are_found() {
        for (text, key) in [
            ("[{a: 1, <<: {a: 2}}]", Some("a")),
            ("{a: 1, <<: {a: 1}}", None),
            ("{<<: {a: 2}, a: 1}", None),
            ("{<<: {a: 2}, <<: {b: 1}}", Some("<<")),
        ] {
            let documents = parse(text).unwrap();
            let found = documents[0].ambiguity().and_then(super::Node::text);
            assert_eq!(found, key, "{text}");
        }
    }
}
