//! `docs/env.md`, rendered from the table so that it cannot drift.

use super::grammar::KINDS;
use super::variables::{VARIABLES, Variable, VariableDefault, VariableStatus};
use std::fmt::Write;

/// The whole document, in Markdown.
pub fn render() -> String {
    let mut out = INTRODUCTION.to_owned();
    grammars(&mut out);
    let mut group = "";
    for variable in VARIABLES {
        if variable.group != group {
            group = variable.group;
            line(
                &mut out,
                format_args!(
                    "\n## {group}\n\n| variable | value | default | effect | since |\n|---|---|---|---|---|"
                ),
            );
        }
        row(&mut out, variable);
    }
    out
}

fn grammars(out: &mut String) {
    line(out, format_args!("| value | accepted |\n|---|---|"));
    for kind in KINDS.iter().filter(|kind| {
        VARIABLES
            .iter()
            .any(|variable| variable.kind.name == kind.name)
    }) {
        line(out, format_args!("| {} | {} |", kind.name, kind.expected));
    }
}

fn row(out: &mut String, variable: &Variable) {
    let Variable { name, since, .. } = variable;
    let value = match variable.unit {
        "" => variable.kind.name.to_owned(),
        unit => format!("{} ({unit})", variable.kind.name),
    };
    let default = match variable.default {
        VariableDefault::Text("") => "empty".to_owned(),
        VariableDefault::Text(text) => format!("`{text}`"),
        VariableDefault::Derived(from) => format!("that of `{from}`"),
        VariableDefault::Required => "**required**".to_owned(),
        VariableDefault::Unset => "unset".to_owned(),
    };
    let effect = variable
        .doc
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" ");
    let status = match variable.status {
        VariableStatus::Used => "",
        VariableStatus::Ignored => " *Accepted; does nothing.*",
    };
    line(
        out,
        format_args!("| `{name}` | {value} | {default} | {effect}{status} | {since} |"),
    );
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string does not fail");
}

const INTRODUCTION: &str = "\
<!-- Rendered from the table in linkerd-app/src/config/variables.rs: UPDATE_DOCS=1 cargo test -p linkerd-app docs -->

# Environment variables

The proxy is configured by its environment, which it reads once, at start. Variables that start with `LINKERD2_PROXY_`
mean exactly what they mean to linkerd2-proxy; those that start with `LINKERD_PROXY_` are this proxy's own.

When anything is wrong, all of it is reported, each error with the name, the value and the accepted form; the last line
on standard error starts with `Invalid configuration:`, and the exit code is 64. Unknown names of either prefix are
warned about. `linkerd-proxy env` prints the values in effect and where they come from.

## Values

An empty value is a value: only some grammars accept it. `0` is a duration without a unit. Durations of more than
36500d count as 36500d. Where one variable mentions another, the prefix is left out.

";
