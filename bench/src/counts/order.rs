//! The order of the proxy's functions in its binary: functions that ran come first.
//!
//! The system maps a file in pieces of 64 KB around each used page, so that used functions between unused ones make
//! nearly all of the code resident. The result is a script for the linker.

use super::callgrind::Names;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

/// Functions that ran, with their own instructions.
#[derive(Debug, Default)]
pub struct Order(BTreeMap<String, u64>);

impl Order {
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
            *self.0.entry(pattern(function)).or_default() += cost;
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The script for the linker: the most expensive functions first.
    pub fn script(&self) -> String {
        let mut patterns: Vec<_> = self.0.iter().collect();
        patterns.sort_by_key(|(_, cost)| std::cmp::Reverse(**cost));
        let mut text = HEAD.to_owned();
        for (pattern, _) in patterns {
            writeln!(text, "      .text*.{pattern}").expect("writing to a string does not fail");
        }
        text + TAIL
    }
}

/// Whether a name is the linker's, not one that callgrind made up.
fn is_symbol(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.$@'".contains(c);
    !name.is_empty() && !name.starts_with("0x") && name.chars().all(is_plain)
}

/// The part of a function's name that is the same with other versions of compiler and crates.
fn pattern(name: &str) -> String {
    // `'2` is a recursion of the second level, `@` a version.
    let name = name.split(['\'', '@']).next().unwrap_or_default();
    if name.starts_with("_ZN") {
        return match name.rfind(HASH) {
            Some(at) => format!("{}*", &name[..at + HASH.len()]),
            None => name.to_owned(),
        };
    }
    if !name.starts_with("_R") {
        return name.to_owned();
    }
    // `Cs…_` is a crate's.
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
    *(
";
const TAIL: &str = "    )
    *(.text .text.*)
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
