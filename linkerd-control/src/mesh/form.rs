//! Reads nodes as fields, lists, texts and numbers, and reports nodes of the wrong form.

use super::error::Problems;
use super::near::near;
use super::position::Position;
use super::yaml::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) at: Position,
}

/// A field that is absent, or was reported as wrong and needs no further message.
#[derive(Clone, Debug)]
pub(super) enum Given<T> {
    Absent,
    Wrong,
    Is(Spanned<T>),
}

/// The known fields of a node.
pub(super) struct Fields<'n> {
    pub(super) at: Position,
    of: Vec<(&'static str, &'n Node)>,
}

/// Reads nodes and collects problems.
#[derive(Default)]
pub(super) struct FieldReader {
    pub(super) problems: Problems,
    /// The regular expressions of the present policy or profile.
    pub(super) patterns: BTreeSet<String>,
}

impl<'n> Fields<'n> {
    /// A field, unless it is absent or null.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let found = self.of.iter().find(|(known, _)| *known == name);
        let node = found.map(|(_, node)| *node)?;
        (!matches!(node.value, Value::Null)).then_some(node)
    }

    /// Whether no field is given.
    pub(super) fn is_empty(&self) -> bool {
        self.of
            .iter()
            .all(|(_, node)| matches!(node.value, Value::Null))
    }

    fn has(&self, name: &str) -> bool {
        self.of.iter().any(|(known, _)| *known == name)
    }
}

impl FieldReader {
    pub(super) fn report(&mut self, at: Position, reason: impl Into<String>) {
        self.problems.push(at.problem(reason));
    }

    /// The fields of a node. A misspelt field is read as its nearest name, so that its value is checked, too.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        known: &'static [&'static str],
    ) -> Option<Fields<'n>> {
        let Value::Fields(pairs) = &node.value else {
            let reason = format!("expected fields, such as `name: web`, not {}", shown(node));
            self.report(node.at, reason);
            return None;
        };
        let mut fields = Fields {
            at: node.at,
            of: Vec::new(),
        };
        let mut unknown = Vec::new();
        for (key, value) in pairs {
            let text = match &key.value {
                Value::Scalar(text) => text.as_str(),
                _ => "",
            };
            match known.iter().find(|known| **known == text) {
                Some(known) if fields.has(known) => {
                    self.report(key.at, format!("`{known}` is given twice; remove one"));
                }
                Some(known) => fields.of.push((known, value)),
                None => unknown.push((key, text, value)),
            }
        }
        for (key, text, value) in unknown {
            let free = known.iter().copied().filter(|known| !fields.has(known));
            match near(text, free) {
                Some(meant) => {
                    let reason = format!("unknown field `{text}`; did you mean `{meant}`?");
                    self.report(key.at, reason);
                    fields.of.push((meant, value));
                }
                None => {
                    let name = shown(key);
                    let reason = format!("unknown field {name}; expected {}", any_of(known));
                    self.report(key.at, reason);
                }
            }
        }
        Some(fields)
    }

    /// A field, read by `read`, which must report a refused value.
    pub(super) fn given<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Given<T> {
        let Some(node) = fields.get(name) else {
            return Given::Absent;
        };
        self.spanned(node, read)
    }

    pub(super) fn spanned<T>(
        &mut self,
        node: &Node,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Given<T> {
        match read(self, node) {
            Some(value) => Given::Is(Spanned { value, at: node.at }),
            None => Given::Wrong,
        }
    }

    /// The items of a field that is a list; none if it is absent.
    pub(super) fn items<'n>(&mut self, fields: &Fields<'n>, name: &str) -> &'n [Node] {
        let node = fields.get(name);
        node.and_then(|node| self.list(node)).unwrap_or_default()
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        let Value::List(items) = &node.value else {
            let mut reason =
                "expected a list, each item on a line that begins with `- `".to_owned();
            if let Value::Fields(fields) = &node.value
                && let Some((key, _)) = fields.first()
            {
                reason.push_str(&format!(", not the field {}", shown(key)));
            }
            self.report(node.at, reason);
            return None;
        };
        Some(items)
    }

    pub(super) fn text(&mut self, node: &Node) -> Option<String> {
        let text = scalar(node);
        if text.is_none() {
            self.report(node.at, format!("expected a text, not {}", shown(node)));
        }
        text.map(str::to_owned)
    }

    /// The texts of a list.
    pub(super) fn texts(&mut self, fields: &Fields<'_>, name: &str) -> Vec<Spanned<String>> {
        let mut texts = Vec::new();
        for node in self.items(fields, name) {
            let text = self.text(node);
            texts.extend(text.map(|value| Spanned { value, at: node.at }));
        }
        texts
    }

    /// A whole number of any size; the check names the allowed range.
    pub(super) fn number(&mut self, node: &Node) -> Option<i128> {
        let number = scalar(node).and_then(|text| text.parse().ok());
        if number.is_none() {
            let reason = format!("expected a whole number, not {}", shown(node));
            self.report(node.at, reason);
        }
        number
    }

    pub(super) fn decimal(&mut self, node: &Node) -> Option<f64> {
        let number = scalar(node).and_then(|text| match text {
            ".nan" | ".NaN" => Some(f64::NAN),
            ".inf" => Some(f64::INFINITY),
            "-.inf" => Some(f64::NEG_INFINITY),
            text => text.parse().ok(),
        });
        if number.is_none() {
            self.report(node.at, format!("expected a number, not {}", shown(node)));
        }
        number
    }

    /// A field with a fixed choice of words.
    pub(super) fn choice<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let node = fields.get(name)?;
        let text = scalar(node);
        let found = choices.iter().find(|(word, _)| Some(*word) == text);
        if found.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            let reason = format!("{} is no {name}; use {}", shown(node), any_of(&words));
            self.report(node.at, reason);
        }
        found.map(|(_, choice)| *choice)
    }

    /// The field `labels`: any names with texts.
    pub(super) fn labels(&mut self, fields: &Fields<'_>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let Some(node) = fields.get("labels") else {
            return labels;
        };
        let Value::Fields(pairs) = &node.value else {
            let reason = format!(
                "expected labels, such as `{{tier: front}}`, not {}",
                shown(node)
            );
            self.report(node.at, reason);
            return labels;
        };
        for (key, value) in pairs {
            let (Some(name), Some(value)) = (self.text(key), self.text(value)) else {
                continue;
            };
            if labels.insert(name.clone(), value).is_some() {
                self.report(key.at, format!("`{name}` is given twice; remove one"));
            }
        }
        labels
    }
}

fn scalar(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(text) => Some(text),
        _ => None,
    }
}

/// A node, as quoted in messages.
pub(super) fn shown(node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Scalar(text) => match text.char_indices().nth(MAX_QUOTED) {
            Some((end, _)) => format!("`{}...`", &text[..end]),
            None => format!("`{text}`"),
        },
        Value::List(_) => "a list".to_owned(),
        Value::Fields(_) => "fields".to_owned(),
    }
}

fn any_of(words: &[&str]) -> String {
    match words {
        [only] => format!("`{only}`"),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

const MAX_QUOTED: usize = 60;
