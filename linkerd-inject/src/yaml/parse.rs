//! Parses a text into a tree for each of its documents.

use super::Yaml;
use crate::problem::Problem;
use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, StructureStyle, Tag};
use std::{collections::HashMap, ops::Range};

/// A value and its position in the text.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The line, from 1.
    pub(crate) line: u64,
    /// The bytes of its content, from the first character to the last one, without trailing comments.
    pub(crate) range: Range<usize>,
    /// Whether the node has an anchor, or is an alias: a change would have an effect elsewhere, too.
    pub(crate) shared: bool,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// A scalar; its range is empty if the value is not written.
    Scalar(Yaml),
    List {
        flow: bool,
        items: Vec<Node>,
    },
    /// In the order of the text, including duplicate keys.
    Map {
        flow: bool,
        fields: Vec<(Node, Node)>,
    },
}

/// Parses all documents of a text. An empty document is a null.
pub(crate) fn parse(text: &str) -> Result<Vec<Node>, Problem> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder::new(text);
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => {
                let range = offset(&span.start)..offset(&span.end);
                builder.event(event, span.start.line() as u64, range)?;
            }
            Err(error) => {
                let line = error.marker().line() as u64;
                let reason = match builder.is_after_braces() {
                    true => UNSEPARATED.to_owned(),
                    false => format!("malformed YAML: {}", error.info()),
                };
                return Err(Problem::new(line, reason));
            }
        }
    }
    Ok(builder.documents)
}

impl Node {
    /// The field that is written in the map itself.
    pub(crate) fn own(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// An entry that is written in the map itself; the last one if there are several.
    pub(crate) fn entry(&self, key: &str) -> Option<(&Node, &Node)> {
        let mut found = self.fields().iter().rev().filter(|(k, _)| k.is_text(key));
        found.next().map(|(key, value)| (key, value))
    }

    /// The entries that are written in the map itself, including `<<`.
    pub(crate) fn fields(&self) -> &[(Node, Node)] {
        match &self.kind {
            NodeKind::Map { fields, .. } => fields,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            NodeKind::List { items, .. } => items,
            _ => &[],
        }
    }

    /// The text of a scalar, with or without quotes.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(Yaml::Str(text) | Yaml::Plain(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_text(&self, text: &str) -> bool {
        self.text() == Some(text)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, NodeKind::Scalar(Yaml::Null))
    }

    pub(crate) fn is_flow(&self) -> bool {
        match self.kind {
            NodeKind::List { flow, .. } | NodeKind::Map { flow, .. } => flow,
            NodeKind::Scalar(_) => false,
        }
    }

    /// The value without its position.
    pub(crate) fn to_yaml(&self) -> Yaml {
        match &self.kind {
            NodeKind::Scalar(value) => value.clone(),
            NodeKind::List { items, .. } => Yaml::List(items.iter().map(Self::to_yaml).collect()),
            NodeKind::Map { fields, .. } => {
                let field = |(key, value): &(Node, Node)| {
                    let key = key.text().unwrap_or_default().to_owned();
                    (key, value.to_yaml())
                };
                Yaml::Map(fields.iter().map(field).collect())
            }
        }
    }

    fn count(&self) -> usize {
        match &self.kind {
            NodeKind::Scalar(_) => 1,
            NodeKind::List { items, .. } => 1 + items.iter().map(Self::count).sum::<usize>(),
            NodeKind::Map { fields, .. } => {
                let nodes = fields.iter().flat_map(|(key, value)| [key, value]);
                1 + nodes.map(Self::count).sum::<usize>()
            }
        }
    }

    fn depth(&self) -> usize {
        let below = match &self.kind {
            NodeKind::Scalar(_) => None,
            NodeKind::List { items, .. } => items.iter().map(Self::depth).max(),
            NodeKind::Map { fields, .. } => fields.iter().map(|(_, value)| value.depth()).max(),
        };
        1 + below.unwrap_or_default()
    }
}

/// A list or a map whose end was not read yet.
struct OpenNode {
    node: Node,
    anchor: usize,
    key: Option<Node>,
}

struct Builder<'a> {
    text: &'a str,
    documents: Vec<Node>,
    open: Vec<OpenNode>,
    anchors: HashMap<usize, Node>,
    /// The number of nodes copied by aliases.
    aliased: usize,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            documents: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            aliased: 0,
        }
    }

    fn event(&mut self, event: Event<'_>, line: u64, range: Range<usize>) -> Result<(), Problem> {
        let node = |anchor, range, kind| Node {
            line,
            range,
            shared: anchor > 0,
            kind,
        };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let range = self.scalar_range(&text, style, range);
                let value = match has_plain_type(tag.as_deref(), style) {
                    true => Yaml::of_plain(&text),
                    false => Yaml::str(text),
                };
                self.complete(node(anchor, range, NodeKind::Scalar(value)), anchor);
            }
            Event::SequenceStart(style, anchor, _) => {
                let flow = style == StructureStyle::Flow;
                let items = Vec::new();
                self.begin(node(anchor, range, NodeKind::List { flow, items }), anchor)?;
            }
            Event::MappingStart(style, anchor, _) => {
                let flow = style == StructureStyle::Flow;
                let fields = Vec::new();
                self.begin(node(anchor, range, NodeKind::Map { flow, fields }), anchor)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(OpenNode {
                    mut node, anchor, ..
                }) = self.open.pop()
                {
                    if node.is_flow() {
                        node.range.end = range.end;
                    }
                    self.complete(node, anchor);
                }
            }
            Event::Alias(anchor) => {
                let Some(target) = self.anchors.get(&anchor) else {
                    return Err(Problem::new(line, "an alias within its own anchor"));
                };
                self.aliased += target.count();
                if self.aliased > MAX_ALIASED {
                    let reason = format!("aliases stand for more than {MAX_ALIASED} values");
                    return Err(Problem::new(line, reason));
                }
                if self.open.len() + target.depth() > MAX_DEPTH {
                    return Err(too_deep(line));
                }
                let kind = target.kind.clone();
                self.push(node(anchor, range, kind));
            }
            _ => {}
        }
        Ok(())
    }

    /// The range of a scalar's content: a block scalar ends with its last line, and includes empty lines after it only if they
    /// are part of the value.
    fn scalar_range(&self, value: &str, style: ScalarStyle, range: Range<usize>) -> Range<usize> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let keeps = value.ends_with("\n\n") || value == "\n";
        if !is_block && range.is_empty() {
            // The value is not written; the colon before it belongs to the entry.
            let rest = &self.text[range.end..];
            let colon = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let has_colon = rest[colon..].starts_with(':');
            let at = range.end + if has_colon { colon + 1 } else { 0 };
            return at..at;
        }
        if !is_block {
            return range;
        }
        let text = &self.text[range.clone()];
        let length = match (keeps, text.rfind('\n')) {
            // Without the indentation of the next line.
            (true, Some(end)) => end + 1,
            _ => text.trim_end().len(),
        };
        range.start..range.start + length
    }

    fn begin(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(node.line));
        }
        self.open.push(OpenNode {
            node,
            anchor,
            key: None,
        });
        Ok(())
    }

    /// Whether the last document ended with its brace, as the objects of a JSON stream do.
    fn is_after_braces(&self) -> bool {
        self.open.is_empty() && self.documents.last().is_some_and(Node::is_flow)
    }

    fn complete(&mut self, node: Node, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.push(node);
    }

    fn push(&mut self, node: Node) {
        let Some(open) = self.open.last_mut() else {
            self.documents.push(node);
            return;
        };
        let end = node.range.end.max(open.node.range.end);
        open.node.range.end = end;
        match &mut open.node.kind {
            NodeKind::List { items, .. } => items.push(node),
            NodeKind::Map { fields, .. } => match open.key.take() {
                None => open.key = Some(node),
                Some(key) => fields.push((key, node)),
            },
            NodeKind::Scalar(_) => {}
        }
    }
}

/// Whether a scalar has the type that its text has without quotes: by its tag, such as `!!bool`, or else by its style.
fn has_plain_type(tag: Option<&Tag>, style: ScalarStyle) -> bool {
    let Some(tag) = tag else {
        return style == ScalarStyle::Plain;
    };
    let name = tag.suffix_in_namespace("tag:yaml.org,2002:");
    name.is_some_and(|name| ["bool", "int", "float", "null", "merge"].contains(&&*name))
}

/// The byte offset of a marker, always known as the parser reads a string.
fn offset(marker: &Marker) -> usize {
    marker.byte_offset().unwrap_or_default()
}

fn too_deep(line: u64) -> Problem {
    Problem::new(line, format!("nested deeper than {MAX_DEPTH} levels"))
}

/// The problem of a stream of JSON objects, which is no YAML.
const UNSEPARATED: &str = "text follows the end of an object; write a line --- between objects, or combine JSON objects: \
    jq -s '{apiVersion: \"v1\", kind: \"List\", items: .}'";

/// The most aliased nodes: aliases of aliases grow without bound, and an honest manifest has few.
const MAX_ALIASED: usize = 100_000;

/// The deepest nesting: trees are walked by recursion, and manifests have some twenty levels.
const MAX_DEPTH: usize = 64;
