//! The order of the proxy's functions in its binary: functions that ran come first, and among them those that ran at the start.
//!
//! The system maps a file in pieces of 64 KB around each used page, so that used functions between unused ones make
//! nearly all of the code resident. The result is a script for the linker.

use super::callgrind::Names;
use crate::error::{Context, Result};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write,
    path::Path,
    process::Command,
};

/// A start, until the first response. Functions of a plain start come before those of a meshed start only, which a plain proxy
/// never runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// The start of a proxy without an identity.
    Plain,
    /// The start of a proxy with a certificate, and mutual TLS.
    Meshed,
}

/// Functions that ran, with their own instructions.
#[derive(Debug, Default)]
pub struct Order {
    functions: BTreeMap<String, u64>,
    /// The functions that ran until the first response.
    startup: BTreeMap<String, Start>,
    /// The full names of the functions that ran.
    names: BTreeMap<String, BTreeSet<String>>,
    /// The number of functions of each name: instances of a generic function have one name without the hash.
    instances: HashMap<String, usize>,
}

impl Order {
    /// Adds the functions that run until the first response.
    pub fn add_startup(&mut self, start: Start, profile: &str, program: &str) {
        let mut startup = Self::default();
        startup.add(profile, program);
        for (function, cost) in startup.functions {
            let first = self.startup.entry(function.clone()).or_insert(start);
            *first = start.min(*first);
            *self.functions.entry(function).or_default() += cost;
        }
        for (pattern, names) in startup.names {
            self.names.entry(pattern).or_default().extend(names);
        }
    }

    /// Counts the functions of the program, as listed by `nm`.
    pub fn count_instances(&mut self, listing: &str) {
        for name in listing
            .lines()
            .filter_map(|line| line.split(' ').next_back())
        {
            *self.instances.entry(pattern(name)).or_default() += 1;
        }
    }

    /// Adds the functions of a program, without its libraries, from a callgrind profile. Names are the linker's.
    pub fn add(&mut self, profile: &str, program: &str) {
        let (mut objects, mut functions) = (Names::default(), Names::default());
        let (mut within, mut function, mut inclusive) = (false, "", false);
        let mut own: HashMap<&str, u64> = HashMap::new();
        for line in profile.lines() {
            if let Some(object) = line.strip_prefix("ob=") {
                within = objects.resolve(object).ends_with(program);
            } else if let Some(object) = line.strip_prefix("cob=") {
                objects.resolve(object);
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = functions.resolve(name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                functions.resolve(name);
            } else if line.starts_with("calls=") {
                // The next line has the cost of the callee.
                inclusive = true;
            } else if line.starts_with(['+', '-', '*'])
                || line.starts_with(|c: char| c.is_ascii_digit())
            {
                let cost = line.split(' ').nth(1).and_then(|cost| cost.parse().ok());
                if within && !inclusive {
                    *own.entry(function).or_default() += cost.unwrap_or(0);
                }
                inclusive = false;
            }
        }
        for (function, cost) in own.into_iter().filter(|(name, _)| is_symbol(name)) {
            let pattern = pattern(function);
            let names = self.names.entry(pattern.clone()).or_default();
            names.insert(without_level(function).to_owned());
            *self.functions.entry(pattern).or_default() += cost;
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The script for the linker: functions that run at the start come first, so that an idle proxy uses few pages. The most
    /// expensive functions come before others.
    ///
    /// Of a function with many instances only a few run. They are listed by their full names, valid for one version of the
    /// compiler, and all others come last. Each group is a separate statement: within one the linker keeps the order of its input.
    pub fn script(&self) -> String {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (pattern, cost) in &self.functions {
            let start = self.startup.get(pattern).copied();
            let instances = self.instances.get(pattern).copied().unwrap_or(1);
            let is_scattered = start.is_some() && instances > MANY;
            let mut add = |group, name| {
                let functions: &mut Vec<_> = groups.entry(group).or_default();
                functions.push((Reverse(*cost), name));
            };
            let group = (false, start.is_none(), start);
            if is_scattered {
                let names = self.names.get(pattern).into_iter().flatten();
                names.for_each(|name| add(group, name));
                add((true, true, None), pattern);
            } else {
                add(group, pattern);
            }
        }
        let mut text = HEAD.to_owned();
        for mut functions in groups.into_values() {
            functions.sort();
            text.push_str("    *(\n");
            for (_, name) in functions {
                writeln!(text, "      .text*.{name}").expect("writing to a string does not fail");
            }
            text.push_str("    )\n");
        }
        text + TAIL
    }
}

/// The number of instances of one name above which only few run at the start.
const MANY: usize = 3;

/// The functions of a program, as listed by `nm`.
pub fn symbols(program: &Path) -> Result<String> {
    let listed = Command::new("nm").arg(program).output().context("nm")?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Whether a name is the linker's, not an invention of callgrind.
fn is_symbol(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.$@'".contains(c);
    !name.is_empty() && !name.starts_with("0x") && name.chars().all(is_plain)
}

/// The part of a function's name that is stable across versions of compiler and crates.
fn pattern(name: &str) -> String {
    let name = without_level(name);
    if name.starts_with("_ZN") {
        return match name.rfind(HASH) {
            Some(at) => format!("{}*", &name[..at + HASH.len()]),
            None => name.to_owned(),
        };
    }
    if !name.starts_with("_R") {
        return name.to_owned();
    }
    // `Cs…_` is the name of a crate.
    let mut parts = name.split("Cs");
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        pattern.push_str("Cs");
        match part.split_once('_') {
            Some((crate_hash, rest)) if crate_hash.chars().all(|c| c.is_ascii_alphanumeric()) => {
                pattern.push_str("*_");
                pattern.push_str(rest);
            }
            _ => pattern.push_str(part),
        }
    }
    pattern
}

/// A name without callgrind's suffixes: `'2` is a recursion of the second level, `@` a version.
fn without_level(name: &str) -> &str {
    name.split(['\'', '@']).next().unwrap_or_default()
}

/// Prefix of the sixteen digits at the end of a name.
const HASH: &str = "17h";

const HEAD: &str = "\
/* The functions of a proxy that serves come first, and the rest after them: docs/performance.md, \"Memory at the start\".
   Written by `cargo run --profile dist -p bench -- counts --order linkerd-app/order.ld`. What is missing here, or has another
   name by now, costs memory and nothing else. */
SECTIONS
{
  .text :
  {
";
const TAIL: &str = "    *(.text .text.*)
  }
}
INSERT AFTER .fini;
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_ran_is_ordered_by_its_own_cost() {
        let profile = "\
ob=(1) ./linkerd-proxy
fn=(1) main
1 5
cob=(2) /lib/libc.so
cfn=(2) memcpy
calls=3 10
+1 90
fn=(3) _ZN4core3fmt5write17h0123456789abcdefE
* 40
ob=(2)
fn=(2)
1 90
ob=(1)
fn=(1)
-3 2
fn=(4) (below main)
-3 2
";
        let mut order = Order::default();
        order.add(profile, "linkerd-proxy");
        let script = order.script();
        let (fmt, main) = (
            script.find(".text*._ZN4core3fmt5write17h*\n"),
            script.find(".text*.main\n"),
        );
        assert!(fmt.is_some() && fmt < main, "{script}");
        assert!(!script.contains("memcpy") && !script.contains("below"));
    }

    #[test]
    fn what_runs_at_the_start_comes_first_and_other_instances_of_it_last() {
        let profile = |functions: &[(&str, u32)]| {
            let mut text = "ob=(1) ./linkerd-proxy\n".to_owned();
            for (number, (name, cost)) in functions.iter().enumerate() {
                text += &format!("fn=({number}) {name}\n1 {cost}\n");
            }
            text
        };
        let mut order = Order::default();
        order.add(&profile(&[("hot", 90), ("both", 80)]), "linkerd-proxy");
        let startup = profile(&[("both", 5), ("_ZN4grow17h0E", 50), ("once", 1)]);
        order.add_startup(Start::Plain, &startup, "linkerd-proxy");
        let meshed = profile(&[("both", 500), ("tls", 2)]);
        order.add_startup(Start::Meshed, &meshed, "linkerd-proxy");
        let listing: String = (0..9)
            .map(|n| format!("00f0 t _ZN4grow17h{n}E\n"))
            .collect();
        order.count_instances(&listing);
        let script = order.script();
        let names = script
            .lines()
            .filter_map(|line| line.trim().strip_prefix(".text*."));
        let names: Vec<_> = names.take(6).collect();
        let ordered = [
            "both",
            "_ZN4grow17h0E",
            "once",
            "tls",
            "hot",
            "_ZN4grow17h*",
        ];
        assert_eq!(names, ordered);
        let groups: Vec<_> = script.split("*(").skip(1).collect();
        assert_eq!(groups.len(), 5, "and the rest: {script}");
        assert!(groups[0].contains("both") && groups[0].contains("once"));
    }

    #[test]
    fn hashes_of_crates_and_versions_are_left_out() {
        for (name, expected) in [
            ("_ZN3foo3bar17h0123456789abcdefE.llvm.17", "_ZN3foo3bar17h*"),
            (
                "_RNvNtCslNYArtu3iFV_5alloc6string'2",
                "_RNvNtCs*_5alloc6string",
            ),
            ("memcpy@GLIBC_2.14", "memcpy"),
        ] {
            assert_eq!(pattern(name), expected);
        }
    }
}
