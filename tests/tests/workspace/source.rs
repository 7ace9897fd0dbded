//! Paths in Rust source, read without a compiler.

/// A path as written, and the name that it gets if it is re-exported.
pub struct Import {
    pub path: Vec<String>,
    pub exported: Option<String>,
}

/// All paths of a file, in `use` and in the code, except in its tests.
pub fn imports(text: &str) -> Vec<Import> {
    paths(&without_tests(tokens(text)))
}

/// All paths of a file.
pub fn imports_with_tests(text: &str) -> Vec<Import> {
    paths(&tokens(text))
}

fn paths(tokens: &[String]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = at == 0 || tokens[at - 1] != "::";
        // `use<..>` in a type names its captures.
        let is_import = tokens.get(at + 1).is_some_and(|next| next != "<");
        if tokens[at] == "use" && is_start && is_import {
            let public = at > 0 && matches!(&*tokens[at - 1], "pub" | ")");
            at = tree(tokens, at + 1, &[], public, &mut imports);
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
                // A leading `::` names another crate. The path keeps it, as no module has this name.
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
