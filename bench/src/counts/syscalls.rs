//! System calls, counted by strace.

use crate::{
    error::{Context, Error, Result},
    process::{Program, find},
    started::Proxies,
};
use std::{fs, path::Path, thread, time::Duration};

/// Whether strace is installed.
pub fn is_installed() -> bool {
    find("strace").is_some()
}

/// The number of system calls of the proxies during some work.
pub fn count(proxies: &Proxies, scratch: &Path, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (file, log) = (scratch.join("strace.out"), scratch.join("strace.log"));
    let mut strace = Program::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(file.display())
        .args(
            proxies
                .pids()
                .flat_map(|pid| ["-p".to_owned(), pid.to_string()]),
        )
        .start("0-1023", None, &log)?;
    let attached = |text: String| text.matches("attached").count() >= proxies.pids().count();
    while !fs::read_to_string(&log).is_ok_and(attached) {
        if strace.has_ended() {
            return Err(strace.failed("it ended"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    work()?;
    strace.signal("INT");
    strace.wait(Duration::from_secs(10))?;
    let text = fs::read_to_string(&file).context("strace.out")?;
    parse(&text).ok_or_else(|| Error::unexpected("strace", &text))
}

/// The number of calls, from the line of the total.
fn parse(text: &str) -> Option<f64> {
    let total = text.lines().find(|line| line.ends_with(" total"))?;
    total.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let text = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 50.00    0.000010           1      2000           recvfrom
 50.00    0.000010           1      2001         4 sendto
------ ----------- ----------- --------- --------- ----------------
100.00    0.000020           1      4001         4 total
";
        assert_eq!(parse(text), Some(4001.0));
        assert_eq!(parse(""), None);
    }
}
