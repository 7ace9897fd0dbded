//! Files of a crate import one another in one direction: a file can be read, tested and moved without those above it.
//!
//! Paths are resolved through re-exports to the file that defines the item. A parent may declare and re-export its
//! children; it is above them only if it uses them. Code of tests is left out.

use super::source::{Import, imports};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Module = Vec<String>;

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

/// Groups of modules that import one another, directly or through others.
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
