//! Changes applied to values, for comparison with the changed text.

use crate::yaml::{Change, PathStep, Yaml};

/// The documents with all changes; `None` if a path does not exist.
pub(super) fn expected(documents: Vec<Yaml>, changes: &[Change]) -> Option<Vec<Yaml>> {
    let mut root = Yaml::List(documents);
    let mut removed = Vec::new();
    for change in changes {
        match change {
            Change::AddFields(path, new) => match find(&mut root, path)? {
                Yaml::Map(fields) => fields.extend(new.iter().cloned()),
                null @ Yaml::Null => *null = Yaml::Map(new.clone()),
                _ => return None,
            },
            Change::Append(path, new) => match find(&mut root, path)? {
                Yaml::List(items) => items.extend(new.iter().cloned()),
                null @ Yaml::Null => *null = Yaml::List(new.clone()),
                _ => return None,
            },
            Change::Prepend(path, new) => match find(&mut root, path)? {
                Yaml::List(items) => drop(items.splice(0..0, new.iter().cloned())),
                null @ Yaml::Null => *null = Yaml::List(new.clone()),
                _ => return None,
            },
            Change::Remove(path) => removed.push(path),
        }
    }
    // Later items first, so that the indices of the earlier ones stay valid.
    removed.sort();
    for path in removed.into_iter().rev() {
        let (last, parent) = path.split_last()?;
        match (find(&mut root, parent)?, last) {
            (Yaml::List(items), PathStep::Index(index)) if *index < items.len() => {
                items.remove(*index);
            }
            (Yaml::Map(fields), PathStep::Key(name)) => fields.retain(|(key, _)| key != name),
            _ => return None,
        }
    }
    match root {
        Yaml::List(documents) => Some(documents),
        _ => None,
    }
}

fn find<'y>(root: &'y mut Yaml, path: &[PathStep]) -> Option<&'y mut Yaml> {
    path.iter()
        .try_fold(root, |value, step| match (value, step) {
            (Yaml::List(items), PathStep::Index(index)) => items.get_mut(*index),
            (Yaml::Map(fields), PathStep::Key(name)) => {
                let mut found = fields.iter_mut().rev().filter(|(key, _)| key == name);
                found.next().map(|(_, value)| value)
            }
            _ => None,
        })
}
