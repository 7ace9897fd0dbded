//! Resource usage of a process, from the kernel.
//!
//! CPU time comes from `schedstat`, which counts the nanoseconds that a thread ran, and not from the ticks of `stat`.

use std::{fs, path::Path};

/// The CPU time of all threads of a process and of its descendants, in nanoseconds.
///
/// Ended threads are not counted: measure only processes whose threads stay.
pub fn nanoseconds(pid: u32) -> u64 {
    let threads = |pid: &u32| -> u64 {
        entries(&format!("/proc/{pid}/task"))
            .filter_map(|thread| fs::read_to_string(thread.join("schedstat")).ok())
            .filter_map(|text| parse_schedstat(&text))
            .sum()
    };
    family(pid).iter().map(threads).sum()
}

/// The resident memory of a process and of its descendants, in bytes.
pub fn rss(pid: u32) -> u64 {
    let one = |pid: &u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        parse_rss(&status).unwrap_or(0)
    };
    family(pid).iter().map(one).sum()
}

/// The nanoseconds on a CPU, from a thread's `schedstat`.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The resident set in bytes, from a process's `status`.
fn parse_rss(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// A process and its descendants: some proxies serve from children.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for thread in entries(&format!("/proc/{pid}/task")) {
            let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
            all.extend(
                children
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        next += 1;
    }
    all
}

fn entries(directory: &str) -> impl Iterator<Item = std::path::PathBuf> + use<> {
    fs::read_dir(Path::new(directory))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_schedstat_is_time_on_a_cpu() {
        assert_eq!(parse_schedstat("699188 12 3\n"), Some(699_188));
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn the_resident_set_is_in_kilobytes() {
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8312 kB\n";
        assert_eq!(parse_rss(status), Some(8312 * 1024));
        assert_eq!(parse_rss("Name:\tkernel thread\n"), None);
    }

    #[test]
    fn this_process_has_used_some_of_both() {
        let pid = std::process::id();
        assert!(nanoseconds(pid) > 0);
        assert!(rss(pid) > 100_000);
    }
}
