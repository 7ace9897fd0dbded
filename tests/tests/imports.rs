//! Files of a crate import one another in one direction: a file can be read, tested and moved without those above it.
//!
//! Paths are resolved through re-exports to the file that defines the item. A parent may declare and re-export its
//! children; it is above them only if it uses them. Tests are not looked at.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Module = Vec<String>;

/// A path as written, and the name that it gets if it is re-exported.
struct Import {
    path: Vec<String>,
    exported: Option<String>,
}

#[test]
fn no_files_import_one_another() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut problems = Vec::new();
    for entry in fs::read_dir(workspace).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("linkerd-") || !path.join("src/lib.rs").exists() {
            continue;
        }
        let groups = circles(&edges(&read(&path.join("src"))));
        problems.extend(
            groups
                .iter()
                .map(|group| format!("{name}: {}", group.join(", "))),
        );
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn paths_are_resolved() {
    let files = [
        ("", "mod a; mod b; pub use b::{B, c::C as D};"),
        (
            "a",
            "use crate::{B, D}; #[cfg(test)] mod tests { use crate::z; }",
        ),
        (
            "b",
            "use ::a::Crate; pub mod c; fn f() { let _ = '{'; c::g(\"super::x\") } // crate::a",
        ),
        (
            "b::c",
            "use super::super::a::A; pub struct C; fn f() -> impl Fn() + use<> { || {}; }",
        ),
    ];
    let files = files.map(|(module, text)| (module_of(module), imports(text)));
    let edges = edges(&BTreeMap::from(files));
    let shown: Vec<_> = edges
        .iter()
        .map(|(a, b)| (a.join("::"), b.join("::")))
        .collect();
    let expected = [("a", "b"), ("a", "b::c"), ("b", "b::c"), ("b::c", "a")];
    assert_eq!(shown, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert_eq!(circles(&edges), [["a", "b", "b::c"]]);
}

/// The groups of modules that reach one another.
fn circles(edges: &BTreeSet<(Module, Module)>) -> Vec<Vec<String>> {
    let reached = |from: &Module| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            let of = edges.iter().filter(|(a, _)| a == module);
            next.extend(of.map(|(_, b)| b).filter(|b| reached.insert((*b).clone())));
        }
        reached
    };
    let all: BTreeMap<_, _> = edges.iter().map(|(a, _)| (a, reached(a))).collect();
    let mut groups = BTreeSet::new();
    for (module, reach) in all
        .iter()
        .filter(|(module, reach)| reach.contains(**module))
    {
        let back = |other: &&Module| all.get(other).is_some_and(|r| r.contains(*module));
        groups.insert(
            reach
                .iter()
                .filter(back)
                .map(|m| m.join("::"))
                .collect::<Vec<_>>(),
        );
    }
    groups.into_iter().collect()
}

fn edges(files: &BTreeMap<Module, Vec<Import>>) -> BTreeSet<(Module, Module)> {
    let mut edges = BTreeSet::new();
    for (module, imports) in files {
        for import in imports {
            let Some(target) = resolve(files, module, &import.path, 8) else {
                continue;
            };
            let declares = import.exported.is_some() && target.starts_with(module);
            if target != *module && !declares {
                edges.insert((module.clone(), target));
            }
        }
    }
    edges
}

/// The module that defines the item at a path; `None` for other crates.
fn resolve(
    files: &BTreeMap<Module, Vec<Import>>,
    from: &Module,
    path: &[String],
    depth: usize,
) -> Option<Module> {
    let child = |of: &Module, name: &String| [of, std::slice::from_ref(name)].concat();
    let (mut module, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => (from.clone(), path),
        _ if files.contains_key(&child(from, &path[0])) => (from.clone(), path),
        _ => return None,
    };
    while rest.first().is_some_and(|name| name == "super") {
        module.pop();
        rest = &rest[1..];
    }
    while let [name, more @ ..] = rest
        && files.contains_key(&child(&module, name))
    {
        module = child(&module, name);
        rest = more;
    }
    let Some(item) = rest.first().filter(|_| depth > 0) else {
        return Some(module);
    };
    let exports = files.get(&module).into_iter().flatten();
    let mut exports = exports.filter(|import| import.exported.as_ref() == Some(item));
    match exports.next() {
        Some(export) => resolve(files, &module, &export.path, depth - 1),
        None => Some(module),
    }
}

fn read(src: &Path) -> BTreeMap<Module, Vec<Import>> {
    let mut files = BTreeMap::new();
    let mut next = vec![src.to_owned()];
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let module = path.strip_prefix(src).unwrap().with_extension("");
        let module = module_of(&module.to_str().unwrap().replace('/', "::"));
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        let is_apart = |name: &String| matches!(&**name, "tests" | "main" | "bin");
        if is_rust && !module.iter().any(is_apart) {
            files.insert(module, imports(&fs::read_to_string(path).unwrap()));
        }
    }
    files
}

fn module_of(path: &str) -> Module {
    let names = path
        .split("::")
        .filter(|name| !name.is_empty() && *name != "lib");
    names.map(str::to_owned).collect()
}

/// All paths of a file outside of its tests, those of `use` and those in the code.
fn imports(text: &str) -> Vec<Import> {
    let tokens = without_tests(tokens(text));
    let mut imports = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = at == 0 || tokens[at - 1] != "::";
        // `use<..>` in a type names its captures.
        let is_import = tokens.get(at + 1).is_some_and(|next| next != "<");
        if tokens[at] == "use" && is_start && is_import {
            let public = at > 0 && matches!(&*tokens[at - 1], "pub" | ")");
            at = tree(&tokens, at + 1, &[], public, &mut imports);
            continue;
        }
        let mut end = at;
        while tokens.get(end + 1).is_some_and(|token| token == "::") {
            end += 2;
        }
        if is_start && end > at && end < tokens.len() {
            let path = tokens[at..=end].iter().filter(|token| *token != "::");
            let path = path.cloned().collect();
            imports.push(Import {
                path,
                exported: None,
            });
        }
        at = end.max(at) + 1;
    }
    imports
}

/// Reads a tree of `use`; returns the position after it.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &[String],
    public: bool,
    all: &mut Vec<Import>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => {
                // At the beginning it names another crate, as no module can be called.
                path.extend(path.is_empty().then(|| token.clone()));
                at += 1;
            }
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, public, all);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "," | "}" | ";" | "as" => break,
            name => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
    let mut name = path.last().cloned();
    path.retain(|name| name != "self" || path_is_self(before, name));
    if tokens.get(at).is_some_and(|token| token == "as") {
        name = tokens.get(at + 1).cloned();
        at += 2;
    }
    let exported = name.filter(|_| public);
    all.push(Import { path, exported });
    at
}

/// `self` at the beginning of a path is this module; at its end it adds nothing.
fn path_is_self(before: &[String], name: &str) -> bool {
    before.is_empty() && name == "self"
}

/// Leaves out modules under `#[cfg(test)]`.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        kept.push(token);
        let is_test = kept.ends_with(&["cfg", "(", "test", ")", "]", "mod"].map(str::to_owned));
        if is_test && tokens.next().is_some() && tokens.next().is_some_and(|token| token == "{") {
            let mut depth = 1;
            for token in tokens.by_ref() {
                depth += i32::from(token == "{") - i32::from(token == "}");
                if depth == 0 {
                    break;
                }
            }
        }
    }
    kept
}

/// Names, `::` and punctuation, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("r#\"") {
            rest.find("\"#").map_or(rest.len(), |end| end + 2)
        } else if c == '"' {
            quoted(rest, '"')
        } else if c == '\'' {
            // A lifetime has no second quote after one character.
            let mut chars = rest.chars().skip(1);
            let escaped = chars.next() == Some('\\');
            match escaped || chars.next() == Some('\'') {
                true => quoted(rest, '\''),
                false => 1,
            }
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else if c.is_alphanumeric() || c == '_' {
            let is_end = |c: char| !c.is_alphanumeric() && c != '_';
            let len = rest.find(is_end).unwrap_or(rest.len());
            tokens.push(rest[..len].to_owned());
            len
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    tokens
}

/// The length of a literal between quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}
