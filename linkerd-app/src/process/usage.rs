//! Resource usage of the process, from `/proc`.

use std::{fs, time::Duration};

/// Resource usage. Values that cannot be read are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// Since the Unix epoch.
    pub(super) start_time: Option<Duration>,
    pub(super) cpu: Option<Duration>,
    pub(super) virtual_memory: Option<u64>,
    pub(super) resident_memory: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    pub(super) received: Option<u64>,
    pub(super) sent: Option<u64>,
}

impl Usage {
    /// This process.
    pub(super) fn of_self() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut usage = Self::parse(
            &read("/proc/self/stat"),
            &read("/proc/stat"),
            &read("/proc/self/status"),
            &read("/proc/self/limits"),
            &read("/proc/self/net/netstat"),
        );
        // Without the descriptor of this listing.
        usage.open_fds = fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| (entries.count() as u64).saturating_sub(1));
        usage
    }

    fn parse(stat: &str, system: &str, status: &str, limits: &str, netstat: &str) -> Self {
        let since_boot = stat_field(stat, START_TIME).map(ticks);
        let booted = field(system, "btime").map(Duration::from_secs);
        let cpu = stat_field(stat, USER_TIME).zip(stat_field(stat, SYSTEM_TIME));
        let kib = |name| field(status, name).map(|kib| kib * 1024);
        Self {
            start_time: booted.zip(since_boot).map(|(boot, since)| boot + since),
            cpu: cpu.map(|(user, system)| ticks(user + system)),
            virtual_memory: kib("VmSize:"),
            resident_memory: kib("VmRSS:"),
            threads: field(status, "Threads:"),
            open_fds: None,
            max_fds: max_fds(limits),
            received: ip_counter(netstat, "InOctets"),
            sent: ip_counter(netstat, "OutOctets"),
        }
    }
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
    words.next()?.parse().ok()
}

/// A field of `/proc/self/stat`, numbered as in proc(5). The second one may contain anything, and ends at the last `)`.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

/// The soft limit. `None`: unlimited.
fn max_fds(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// An IP counter, from a line of names and a line of values.
fn ip_counter(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    columns.find(|(column, _)| *column == name)?.1.parse().ok()
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND))
}

const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const START_TIME: usize = 22;

/// USER_HZ, which Linux fixes on all supported architectures whatever the kernel's own tick is.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_tells() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 7 0 1234 999 8";
        let system = "cpu  1 2 3\nbtime 1700000000\nprocesses 5\n";
        let status = "Name:\tx\nVmSize:\t   2048 kB\nVmRSS:\t    12 kB\nThreads:\t7\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n";
        let netstat = "TcpExt: A InOctets\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 700 900\n";
        let expected = Usage {
            start_time: Some(Duration::from_millis(1_700_000_012_340)),
            cpu: Some(Duration::from_secs(3)),
            virtual_memory: Some(2048 * 1024),
            resident_memory: Some(12 * 1024),
            threads: Some(7),
            open_fds: None,
            max_fds: Some(1024),
            received: Some(700),
            sent: Some(900),
        };
        assert_eq!(
            Usage::parse(stat, system, status, limits, netstat),
            expected
        );
    }

    #[test]
    fn what_is_missing_or_unlimited_is_left_out() {
        assert_eq!(Usage::parse("", "", "", "", ""), Usage::default());
        assert_eq!(max_fds("Max open files   unlimited unlimited files"), None);
    }

    #[test]
    fn this_process_has_all_of_it() {
        let usage = Usage::of_self();
        assert!(usage.start_time.is_some() && usage.cpu.is_some());
        assert!(usage.resident_memory > Some(0) && usage.virtual_memory > usage.resident_memory);
        assert!(usage.threads > Some(0) && usage.open_fds > Some(0));
        assert!(usage.received.is_some() && usage.sent.is_some());
    }
}
