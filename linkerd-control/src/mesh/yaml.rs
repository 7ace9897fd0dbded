//! A YAML text as a tree of nodes with their positions.
//!
//! A syntax error ends the tree. Complete items before it are kept: their problems are reported as well.

use super::{error::Problem, position::Position, syntax};
use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError};
use std::collections::HashMap;

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// An empty value, or `null`.
    Null,
    /// Text without its quotes. Its field decides whether it is a number.
    Scalar(String),
    List(Vec<Node>),
    /// In the order of the text, including duplicate keys.
    Fields(Vec<(Node, Node)>),
}

/// The readable part of a text.
#[derive(Debug)]
pub(super) struct YamlTree {
    /// `None` for an empty text.
    pub(super) root: Option<Node>,
    /// The error that ends the tree early.
    pub(super) error: Option<Problem>,
}

/// Parses the first document of a text; a second one is an error.
pub(super) fn parse(text: &str) -> YamlTree {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder::default();
    let mut documents = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let error = match next {
            Ok((Event::DocumentStart(..), span)) => {
                documents += 1;
                let at = place(&span.start);
                (documents > 1).then(|| at.problem("the file has a second document; remove it"))
            }
            Ok((event, span)) => builder.event(event, place(&span.start)).err(),
            Err(error) => Some(builder.syntax_error(text, &error)),
        };
        if error.is_some() {
            return builder.finish(error);
        }
    }
    builder.finish(None)
}

/// A list or fields whose end was not read yet.
struct OpenNode {
    at: Position,
    anchor: usize,
    key: Option<Node>,
    value: Value,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<OpenNode>,
    anchors: HashMap<usize, Node>,
    /// The number of nodes copied by aliases.
    aliased: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let null = style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null");
                let value = match null {
                    true => Value::Null,
                    false => Value::Scalar(text.into_owned()),
                };
                self.complete(Node { at, value }, anchor);
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(at, anchor, Value::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                self.begin(at, anchor, Value::Fields(Vec::new()))?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenNode {
                    at, anchor, value, ..
                }) = self.open.pop()
                {
                    self.complete(Node { at, value }, anchor);
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(at.problem("the alias refers to a node that contains it"));
                };
                let (count, depth) = node.extent();
                self.nests(depth, at)?;
                self.aliased += count;
                if self.aliased > MAX_ALIASED {
                    let reason = format!("aliases stand for more than {MAX_ALIASED} values");
                    return Err(at.problem(reason));
                }
                let node = node.clone();
                self.push(node);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, at: Position, anchor: usize, value: Value) -> Result<(), Problem> {
        self.nests(1, at)?;
        self.open.push(OpenNode {
            at,
            anchor,
            key: None,
            value,
        });
        Ok(())
    }

    /// Whether the open nodes can hold another of this depth.
    fn nests(&self, depth: usize, at: Position) -> Result<(), Problem> {
        match self.open.len() + depth > MAX_DEPTH {
            true => Err(at.problem(format!("nested deeper than {MAX_DEPTH} levels"))),
            false => Ok(()),
        }
    }

    fn complete(&mut self, node: Node, anchor: usize) {
        // 0 means no anchor.
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.push(node);
    }

    fn push(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match &mut open.value {
            Value::List(items) => items.push(node),
            Value::Fields(fields) => match open.key.take() {
                None => open.key = Some(node),
                Some(key) => fields.push((key, node)),
            },
            Value::Null | Value::Scalar(_) => {}
        }
    }

    fn syntax_error(&mut self, text: &str, error: &ScanError) -> Problem {
        // A line that continues no item was meant for the last one, which is incomplete.
        if let Some(Value::List(items)) = self.open.last_mut().map(|open| &mut open.value) {
            items.pop();
        }
        let at = place(error.marker());
        let open: Vec<_> = self.open.iter().map(|node| node.at).collect();
        at.problem(syntax::reason(&error.info(), text, at, &open))
    }

    /// Closes the open nodes: lists keep their items, but only the outermost fields are kept, since an incomplete service would
    /// be reported for parts that were only not read.
    fn finish(mut self, error: Option<Problem>) -> YamlTree {
        while let Some(OpenNode { at, value, .. }) = self.open.pop() {
            let outermost = self.open.is_empty();
            if outermost || matches!(value, Value::List(_)) {
                self.push(Node { at, value });
            } else if let Some(open) = self.open.last_mut() {
                open.key = None;
            }
        }
        YamlTree {
            root: self.root,
            error,
        }
    }
}

impl Node {
    pub(super) fn position(&self) -> Position {
        self.at
    }

    pub(super) fn is_scalar(&self) -> bool {
        matches!(self.value, Value::Scalar(_))
    }

    pub(super) fn is_empty_list(&self) -> bool {
        matches!(&self.value, Value::List(items) if items.is_empty())
    }

    /// The value of a field, read without a check of the others.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Value::Fields(fields) = &self.value else {
            return None;
        };
        let named = |key: &Self| matches!(&key.value, Value::Scalar(text) if text == name);
        let found = fields.iter().find(|(key, _)| named(key));
        found.map(|(_, value)| value)
    }

    /// The number of nodes and of levels.
    fn extent(&self) -> (usize, usize) {
        let below: Vec<_> = match &self.value {
            Value::Null | Value::Scalar(_) => Vec::new(),
            Value::List(items) => items.iter().map(Self::extent).collect(),
            Value::Fields(fields) => {
                let nodes = fields.iter().flat_map(|(key, value)| [key, value]);
                nodes.map(Self::extent).collect()
            }
        };
        let count: usize = below.iter().map(|(count, _)| count).sum();
        let depth = below.iter().map(|(_, depth)| *depth).max();
        (1 + count, 1 + depth.unwrap_or_default())
    }
}

fn place(marker: &granit_parser::Marker) -> Position {
    Position {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

/// The most aliased nodes: aliases of aliases grow without bound, and an honest file has few.
const MAX_ALIASED: usize = 100_000;

/// The deepest nesting: a mesh file has thirteen levels, and as many more as a profile nests conditions. Trees are walked by
/// recursion, and aliases of aliases can nest without limit.
const MAX_DEPTH: usize = 32;
