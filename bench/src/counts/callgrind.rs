//! Instructions and allocations, counted by valgrind's callgrind.
//!
//! A process is counted from its start to its end, twice, with few requests and with many: the difference is the cost
//! of the requests. Enabling the counting only for the requests needs `ptrace`, which containers often lack.

use crate::{
    error::{Context, Error, Result},
    process::{Program, find},
    started::Proxies,
};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The cost of some work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions in user space.
    pub instructions: u64,
    /// Calls of the allocator that return memory.
    pub allocations: u64,
}

impl Cost {
    /// The difference to another cost.
    pub fn less(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(other.instructions),
            allocations: self.allocations.saturating_sub(other.allocations),
        }
    }
}

/// Whether valgrind is installed.
pub fn is_installed() -> bool {
    find("valgrind").is_some()
}

/// A program under callgrind. Function names are demangled or the linker's.
pub fn under(program: Program, file: &Path, demangle: bool) -> Program {
    let out = format!("--callgrind-out-file={}", file.display());
    let names = match demangle {
        true => "--demangle=yes",
        false => "--demangle=no",
    };
    program.under("valgrind", &["--tool=callgrind", names, &out])
}

/// Ends processes under callgrind, and returns their cost from start to end. `file` is the path of each process's profile.
pub fn finish(proxies: Proxies, file: impl Fn(usize) -> PathBuf) -> Result<Cost> {
    let mut sum = Cost::default();
    // The clients' proxy first: the proxy of the backends would wait for it.
    for (number, mut proxy) in proxies.into_running().into_iter().enumerate().rev() {
        // Callgrind writes its file at the end.
        proxy.signal("TERM");
        proxy.wait(Duration::from_secs(60))?;
        let text = read(&file(number))?;
        let cost = parse(&text).ok_or_else(|| Error::unexpected("callgrind", &text))?;
        sum.instructions += cost.instructions;
        sum.allocations += cost.allocations;
    }
    Ok(sum)
}

/// The text of a profile.
pub fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).context(file.display().to_string())
}

/// Reads callgrind's format: functions have a number, and also a name at their first occurrence.
fn parse(text: &str) -> Option<Cost> {
    let total = |line: &str| {
        let rest = line
            .strip_prefix("totals: ")
            .or_else(|| line.strip_prefix("summary: "))?;
        rest.trim().parse().ok()
    };
    let instructions = text.lines().find_map(total)?;
    let mut names = Names::default();
    let (mut callee, mut allocations) = ("", 0);
    for line in text.lines() {
        let function = line.strip_prefix("fn=").or(line.strip_prefix("cfn="));
        if let Some(function) = function {
            callee = names.resolve(function);
        } else if let Some(calls) = line.strip_prefix("calls=")
            && is_allocation(callee)
        {
            let count = calls.split(' ').next()?;
            allocations += count.parse::<u64>().ok()?;
        }
    }
    Some(Cost {
        instructions,
        allocations,
    })
}

/// Names in callgrind's format: each has a number, and also a text at its first occurrence.
#[derive(Default)]
pub(super) struct Names<'a>(HashMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    /// The name after `fn=`, `ob=` and the like.
    pub(super) fn resolve(&mut self, text: &'a str) -> &'a str {
        let (number, name) = text.split_once(')').unwrap_or((text, ""));
        match name.trim() {
            "" => self.0.get(number).copied().unwrap_or_default(),
            name => self.0.entry(number).insert_entry(name).get(),
        }
    }
}

/// The entries of the C library's allocator and of jemalloc.
fn is_allocation(name: &str) -> bool {
    let name = name.split(['\'', '@']).next().unwrap_or_default();
    let name = name.strip_prefix("_rjem_").unwrap_or(name);
    let entries = ["malloc", "calloc", "realloc", "mallocx", "rallocx"];
    entries.contains(&name) || ["aligned_alloc", "posix_memalign"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_calls_of_the_allocator_are_summed() {
        let text = "\
events: Ir
fn=(1) main
1 5
cfn=(2) _rjem_malloc
calls=3 10
1 90
cfn=(3) _rjem_sdallocx
calls=3 20
1 30
fn=(4) other
1 1
cfn=(2)
calls=4 10
1 120
totals: 4321
";
        let expected = Cost {
            instructions: 4321,
            allocations: 7,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("events: Ir\n"), None);
    }
}
