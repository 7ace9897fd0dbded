//! Maps with the entries that `<<` merges into them.
//!
//! An entry of the map itself takes precedence over a merged one, and so does an earlier map of a list over a later one.
//! Readers differ only where an entry stands before `<<` ([`Node::ambiguity`]): kubectl then takes the merged one.

use super::{Node, NodeKind, Yaml, scalar::MERGE};

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
        for map in self.merged() {
            for (key, value) in map.entries() {
                let has = |(known, _): &(&Node, &Node)| known.text() == key.text();
                if !entries.iter().any(has) {
                    entries.push((key, value));
                }
            }
        }
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
                let mut before = fields[..last.unwrap_or(0)].iter();
                let own = before.find(|(key, value)| self.is_disputed(key, value));
                own.map(|(key, _)| key)
                    .or_else(|| fields.iter().find_map(|(_, value)| value.ambiguity()))
            }
        }
    }

    /// Whether `<<` merges another value for a key, or is itself the key and not the only one.
    fn is_disputed(&self, key: &Node, value: &Node) -> bool {
        let Some(name) = key.text() else {
            return false;
        };
        if is_merge(key) {
            return true;
        }
        let mut merged = self.merged().filter_map(|map| map.get(name));
        merged.any(|other| other.to_yaml() != value.to_yaml())
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
