//! Changes of a text at the positions of its nodes. All other bytes stay.
//!
//! A changed text is parsed again and compared with the changed value, so that an unexpected form of YAML is an error and
//! never another manifest.

mod expected;
mod places;

use self::{
    expected::expected,
    places::{column, line_end, line_start},
};
use super::{
    Change, Node, NodeKind, PathStep, Yaml, parse,
    write::{block_entry, block_item, flow, flow_entry},
};
use crate::problem::Problem;
use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

/// The text with all changes.
pub(crate) fn apply(text: &str, changes: &[Change]) -> Result<String, Problem> {
    if changes.is_empty() {
        return Ok(text.to_owned());
    }
    let documents = parse(text)?;
    let mut editor = Editor {
        text,
        has_crlf: text.contains("\r\n"),
        edits: Vec::new(),
    };
    let mut removed: BTreeMap<&[PathStep], Vec<&PathStep>> = BTreeMap::new();
    for change in changes {
        match change {
            Change::Remove(path) => {
                let (last, parent) = path.split_last().ok_or_else(|| not_found(1))?;
                removed.entry(parent).or_default().push(last);
            }
            Change::AddFields(path, fields) => {
                let (node, column) = editor.find(&documents, path)?;
                editor.add_fields(node, column, fields, path.len());
            }
            Change::Append(path, items) => {
                let (node, column) = editor.find(&documents, path)?;
                editor.append(node, column, items, path.len());
            }
            Change::Prepend(path, items) => {
                let (parent, _) = editor.find(&documents, &path[..path.len() - 1])?;
                let column = column(text, parent.range.start);
                let key = match path.last() {
                    Some(PathStep::Key(key)) => parent.entry(key),
                    _ => None,
                };
                let (key, list) = key.ok_or_else(|| not_found(parent.line))?;
                editor.prepend(key, list, column, items, path.len());
            }
        }
    }
    for (parent, steps) in removed {
        let (node, _) = editor.find(&documents, parent)?;
        editor.remove(node, &steps);
    }
    let changed = editor.finish();
    let found: Option<Vec<_>> = parse(&changed)
        .ok()
        .map(|documents| documents.iter().map(Node::to_yaml).collect());
    let before = documents.iter().map(Node::to_yaml).collect();
    if found != expected(before, changes) {
        let line = first_place(&documents, changes);
        let reason = "the form of this YAML cannot be changed in place; write it in block style";
        return Err(Problem::new(line, reason));
    }
    Ok(changed)
}

/// A replacement of a range. At the same position, the edit of the deeper node comes first.
struct TextEdit {
    range: Range<usize>,
    depth: usize,
    text: String,
}

struct Editor<'a> {
    text: &'a str,
    /// Whether lines end like those of Windows. Looked up once: a search for each change would be quadratic.
    has_crlf: bool,
    edits: Vec<TextEdit>,
}

impl Editor<'_> {
    /// The node of a path, and the column of its sibling keys or of the map above it.
    fn find<'n>(
        &self,
        documents: &'n [Node],
        path: &[PathStep],
    ) -> Result<(&'n Node, usize), Problem> {
        let Some((PathStep::Index(first), rest)) = path.split_first() else {
            return Err(not_found(1));
        };
        let mut node = documents.get(*first).ok_or_else(|| not_found(1))?;
        let mut beside = 0;
        for step in rest {
            if matches!(node.kind, NodeKind::Map { .. }) {
                beside = column(self.text, node.range.start);
            }
            let next = match step {
                PathStep::Key(key) => match node.merges(key) {
                    Some(merge) => return Err(merged(merge.line)),
                    None => node.get(key),
                },
                PathStep::Index(index) => node.items().get(*index),
            };
            node = next.ok_or_else(|| not_found(node.line))?;
        }
        Ok((node, beside))
    }

    fn add_fields(&mut self, map: &Node, beside: usize, fields: &[(String, Yaml)], depth: usize) {
        let written = |column| {
            let mut text = String::new();
            for (key, value) in fields {
                block_entry(key, value, column, &mut text);
            }
            text
        };
        match &map.kind {
            NodeKind::Map { flow: false, .. } => {
                let column = column(self.text, map.range.start);
                self.insert_lines(map.range.end, written(column), depth);
            }
            NodeKind::Map { fields: before, .. } => {
                let last = before
                    .last()
                    .map(|(key, value)| key.range.end.max(value.range.end));
                let entries = fields.iter().map(|(key, value)| {
                    let mut text = String::new();
                    flow_entry(key, value, &mut text);
                    text
                });
                self.add_in_braces(map, last, &entries.collect::<Vec<_>>(), depth);
            }
            _ => self.fill(map, written(beside + 2), &Yaml::Map(fields.to_vec()), depth),
        }
    }

    fn append(&mut self, list: &Node, beside: usize, items: &[Yaml], depth: usize) {
        match &list.kind {
            NodeKind::List { flow: false, .. } => {
                let lines = lines_of(items, self.dash_column(list, beside));
                self.insert_lines(list.range.end, lines, depth);
            }
            NodeKind::List { items: before, .. } => {
                let last = before.last().map(|item| item.range.end);
                self.add_in_braces(list, last, &in_one_line(items), depth);
            }
            _ => self.fill(
                list,
                lines_of(items, beside),
                &Yaml::List(items.to_vec()),
                depth,
            ),
        }
    }

    fn prepend(&mut self, key: &Node, list: &Node, beside: usize, items: &[Yaml], depth: usize) {
        match &list.kind {
            // After the line of the key: a comment above the first item stays with it.
            NodeKind::List { flow: false, .. } => {
                let lines = lines_of(items, self.dash_column(list, beside));
                self.insert_lines(key.range.end, lines, depth);
            }
            NodeKind::List { items: before, .. } if !before.is_empty() => {
                let at = before[0].range.start;
                let text = format!("{}, ", in_one_line(items).join(", "));
                self.insert(at, text, depth);
            }
            _ => self.append(list, beside, items, depth),
        }
    }

    /// The column of a list's dashes. They may be in the column of the list's key, and then the list itself has no position.
    fn dash_column(&self, list: &Node, beside: usize) -> usize {
        let mut first = self.text[list.range.start..].chars();
        let is_dash = first.next() == Some('-') && first.next().is_none_or(char::is_whitespace);
        match is_dash {
            true => column(self.text, list.range.start),
            false => beside,
        }
    }

    fn add_in_braces(&mut self, node: &Node, last: Option<usize>, texts: &[String], depth: usize) {
        let text = texts.join(", ");
        match last {
            Some(end) => self.insert(end, format!(", {text}"), depth),
            None => self.insert(node.range.start + 1, text, depth),
        }
    }

    /// Writes a value in place of a null.
    fn fill(&mut self, null: &Node, lines: String, value: &Yaml, depth: usize) {
        if null.range.is_empty() {
            return self.insert_lines(null.range.end, lines, depth);
        }
        let mut text = String::new();
        flow(value, &mut text);
        let range = null.range.clone();
        self.edits.push(TextEdit { range, depth, text });
    }

    /// Inserts whole lines after the line of a position.
    fn insert_lines(&mut self, after: usize, lines: String, depth: usize) {
        let (at, is_ended) = line_end(self.text, after);
        let lines = match is_ended {
            true => lines,
            false => format!("\n{}", lines.trim_end_matches('\n')),
        };
        let lines = match self.has_crlf {
            true => lines.replace('\n', "\r\n"),
            false => lines,
        };
        self.insert(at, lines, depth);
    }

    fn insert(&mut self, at: usize, text: String, depth: usize) {
        let range = at..at;
        self.edits.push(TextEdit { range, depth, text });
    }

    fn remove(&mut self, parent: &Node, steps: &[&PathStep]) {
        let is_removed = |n: usize, key: Option<&str>| {
            steps.iter().any(|step| match step {
                PathStep::Index(index) => *index == n,
                PathStep::Key(name) => key == Some(name),
            })
        };
        let entries: Vec<(Range<usize>, bool)> = match &parent.kind {
            NodeKind::Scalar(_) => Vec::new(),
            NodeKind::List { items, .. } => {
                let items = items.iter().enumerate();
                let entry = items.map(|(n, item)| (item.range.clone(), is_removed(n, None)));
                entry.collect()
            }
            NodeKind::Map { fields, .. } => {
                let entry = |(key, value): &(Node, Node)| {
                    let end = key.range.end.max(value.range.end);
                    (key.range.start..end, is_removed(usize::MAX, key.text()))
                };
                fields.iter().map(entry).collect()
            }
        };
        match parent.is_flow() {
            true => self.remove_in_braces(&entries),
            false => {
                for (range, _) in entries.iter().filter(|(_, is_removed)| *is_removed) {
                    self.remove_lines(range);
                }
            }
        }
    }

    fn remove_lines(&mut self, range: &Range<usize>) {
        let (end, _) = line_end(self.text, range.end);
        self.delete(line_start(self.text, range.start)..end);
    }

    /// Removes each run of entries with the comma after it, or with the comma before it if the run is the last.
    fn remove_in_braces(&mut self, entries: &[(Range<usize>, bool)]) {
        let mut at = 0;
        while at < entries.len() {
            let run = entries[at..]
                .iter()
                .take_while(|(_, removed)| *removed)
                .count();
            if run > 0 {
                let after = at + run;
                let start = entries[at].0.start;
                let end = entries[after - 1].0.end;
                self.delete(match (entries.get(after), at) {
                    (Some((next, _)), _) => start..next.start,
                    (None, 0) => start..end,
                    (None, at) => entries[at - 1].0.end..end,
                });
            }
            at += run.max(1);
        }
    }

    fn delete(&mut self, range: Range<usize>) {
        let (text, depth) = (String::new(), 0);
        self.edits.push(TextEdit { range, depth, text });
    }

    fn finish(mut self) -> String {
        self.edits
            .sort_by_key(|edit| (edit.range.start, Reverse(edit.depth)));
        let mut changed = String::with_capacity(self.text.len() * 2);
        let mut at = 0;
        for TextEdit { range, text, .. } in &self.edits {
            // The outer one of nested removals is enough.
            changed.push_str(&self.text[at..range.start.max(at)]);
            changed.push_str(text);
            at = range.end.max(at);
        }
        changed.push_str(&self.text[at..]);
        // A text without a final line end gets none from lines before the removed ones.
        if at == self.text.len() && !self.text.ends_with('\n') && changed.ends_with('\n') {
            let kept = changed.trim_end_matches('\n').trim_end_matches('\r').len();
            changed.truncate(kept);
        }
        changed
    }
}

fn lines_of(items: &[Yaml], column: usize) -> String {
    let mut text = String::new();
    for item in items {
        block_item(item, column, &mut text);
    }
    text
}

fn in_one_line(items: &[Yaml]) -> Vec<String> {
    let written = items.iter().map(|item| {
        let mut text = String::new();
        flow(item, &mut text);
        text
    });
    written.collect()
}

fn first_place(documents: &[Node], changes: &[Change]) -> u64 {
    let paths = changes.iter().map(|change| match change {
        Change::AddFields(path, _) | Change::Prepend(path, _) | Change::Append(path, _) => path,
        Change::Remove(path) => path,
    });
    let document = paths.filter_map(|path| match path.first() {
        Some(PathStep::Index(index)) => documents.get(*index),
        _ => None,
    });
    document.map(|node| node.line).min().unwrap_or(1)
}

/// The problem of a change to a merged value: it would have an effect elsewhere, too.
pub(crate) fn merged(line: u64) -> Problem {
    let reason = "fields merged by << cannot be changed in place; write them out";
    Problem::new(line, reason)
}

fn not_found(line: u64) -> Problem {
    Problem::new(line, "the value to change is not there")
}
