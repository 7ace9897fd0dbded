//! The number of workers, from the configuration and the cores available.
//!
//! The inputs are spread over the environment, the affinity mask and control groups. So they and the decision are
//! values, and start-up logs both for operators who ask for the reason.

use super::WorkersConfig;
use super::cgroup::{self, CpuQuota, ReadFile};
use super::variables::{CORES_MAX, CORES_MAX_RATIO, CORES_MIN};
use std::fmt;
use std::num::NonZeroUsize;

/// The cores available to this process, by limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Cores of the machine.
    pub online: usize,
    /// Cores in the affinity mask.
    pub affinity: usize,
    /// The quota of control groups.
    pub quota: Option<CpuQuota>,
}

/// A number of workers, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerDecision {
    /// The number of workers; at least one.
    pub workers: usize,
    /// The reason, in words.
    pub reason: String,
}

impl Cores {
    /// Reads the limits of the machine.
    pub fn detect() -> Self {
        Self::detect_with(&|path| std::fs::read_to_string(path).ok())
    }

    /// The number of usable cores: a quota of one and a half can use two cores, each for a part of the time.
    pub fn available(&self) -> usize {
        let quota = self
            .quota
            .map_or(usize::MAX, |quota| quota.cores.ceil() as usize);
        self.online.min(self.affinity).min(quota).max(1)
    }

    fn detect_with(read: ReadFile<'_>) -> Self {
        let affinity = read("/proc/self/status").and_then(|status| parse_affinity(&status));
        let affinity = affinity
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get));
        let online = read("/sys/devices/system/cpu/online").and_then(|list| parse_list(&list));
        Self {
            online: online.unwrap_or(affinity),
            affinity,
            quota: cgroup::quota(read),
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores online, {} by affinity, ",
            self.online, self.affinity
        )?;
        match self.quota {
            Some(CpuQuota { cores, version }) => write!(f, "quota of {cores} (cgroup v{version})")?,
            None => f.write_str("no quota")?,
        }
        write!(f, ": {} can be used", self.available())
    }
}

impl fmt::Display for WorkerDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workers: {} ({})", self.workers, self.reason)
    }
}

/// Decides the number of workers: as configured, but at least the minimum, and never more than the cores.
pub fn decide_workers(wanted: &WorkersConfig, cores: &Cores) -> WorkerDecision {
    let available = cores.available();
    let (mut workers, mut reason) = match (wanted.max, wanted.max_ratio) {
        (Some(max), _) => (max, format!("{}={max}", CORES_MAX.name())),
        (None, Some(ratio)) => {
            let share = (available as f64 * ratio).round() as usize;
            (
                share.max(1),
                format!("{}={ratio} of {available}", CORES_MAX_RATIO.name()),
            )
        }
        (None, None) => (1, "one unless more are asked for".to_owned()),
    };
    if wanted.min > workers {
        workers = wanted.min;
        reason = format!("{}={workers}", CORES_MIN.name());
    }
    if workers > available {
        reason = format!("{reason}, but only {available} can be used");
    }
    WorkerDecision {
        workers: workers.clamp(1, available),
        reason,
    }
}

/// `Cpus_allowed_list` of `/proc/self/status`.
fn parse_affinity(status: &str) -> Option<usize> {
    parse_list(
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?,
    )
}

/// The length of a list such as `0-3,8`.
fn parse_list(list: &str) -> Option<usize> {
    let number = |text: &str| text.parse::<usize>().ok();
    let count = |item: &str| match item.split_once('-') {
        Some((first, last)) => number(last)?.checked_sub(number(first)?)?.checked_add(1),
        None => number(item).map(|_| 1),
    };
    let counts = list
        .trim()
        .split(',')
        .map(count)
        .collect::<Option<Vec<_>>>()?;
    counts.into_iter().try_fold(0, usize::checked_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cores(n: usize) -> Cores {
        Cores {
            online: n,
            affinity: n,
            quota: None,
        }
    }

    #[test]
    fn workers_follow_the_rule() {
        for (min, max, max_ratio, available, expected, reason) in [
            (1, None, None, 8, 1, "one unless more are asked for"),
            (2, None, None, 8, 2, "LINKERD2_PROXY_CORES_MIN=2"),
            (1, Some(4), None, 8, 4, "LINKERD2_PROXY_CORES_MAX=4"),
            (1, Some(4), Some(1.0), 8, 4, "LINKERD2_PROXY_CORES_MAX=4"),
            (
                1,
                Some(4),
                None,
                2,
                2,
                "LINKERD2_PROXY_CORES_MAX=4, but only 2 can be used",
            ),
            (6, Some(4), None, 8, 6, "LINKERD2_PROXY_CORES_MIN=6"),
            (
                9,
                None,
                None,
                8,
                8,
                "LINKERD2_PROXY_CORES_MIN=9, but only 8 can be used",
            ),
            (
                1,
                None,
                Some(0.5),
                8,
                4,
                "LINKERD2_PROXY_CORES_MAX_RATIO=0.5 of 8",
            ),
            (
                1,
                None,
                Some(0.5),
                3,
                2,
                "LINKERD2_PROXY_CORES_MAX_RATIO=0.5 of 3",
            ),
            (
                1,
                None,
                Some(0.01),
                8,
                1,
                "LINKERD2_PROXY_CORES_MAX_RATIO=0.01 of 8",
            ),
        ] {
            let decision = decide_workers(
                &WorkersConfig {
                    min,
                    max,
                    max_ratio,
                },
                &cores(available),
            );
            assert_eq!(
                decision,
                WorkerDecision {
                    workers: expected,
                    reason: reason.to_owned()
                }
            );
        }
    }

    #[test]
    fn quota_and_affinity_limit_the_cores() {
        let quota = |cores| Some(CpuQuota { cores, version: 2 });
        for (online, affinity, quota, expected) in [
            (8, 8, None, 8),
            (8, 2, None, 2),
            (8, 8, quota(1.5), 2),
            (8, 8, quota(0.1), 1),
            (8, 8, quota(100.0), 8),
            (0, 0, None, 1),
        ] {
            assert_eq!(
                Cores {
                    online,
                    affinity,
                    quota
                }
                .available(),
                expected
            );
        }
    }

    #[test]
    fn the_line_at_start_tells_it_all() {
        let cores = Cores {
            online: 8,
            affinity: 4,
            quota: Some(CpuQuota {
                cores: 1.5,
                version: 2,
            }),
        };
        let decision = decide_workers(
            &WorkersConfig {
                min: 4,
                max: None,
                max_ratio: None,
            },
            &cores,
        );
        assert_eq!(
            format!("{cores}; {decision}"),
            "8 cores online, 4 by affinity, quota of 1.5 (cgroup v2): 2 can be used; \
             workers: 2 (LINKERD2_PROXY_CORES_MIN=4, but only 2 can be used)"
        );
    }

    #[test]
    fn lists_are_counted() {
        for (list, expected) in [
            ("0", Some(1)),
            ("0-3\n", Some(4)),
            ("0-3,8,10-11", Some(7)),
            ("", None),
            ("3-0", None),
            ("a", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(parse_list(list), expected, "{list}");
        }
        assert_eq!(
            parse_affinity("Name:\tproxy\nCpus_allowed_list:\t0-1\nMems_allowed:\t1\n"),
            Some(2)
        );
    }

    #[test]
    fn looks_at_proc_and_sys() {
        let read = |path: &str| match path {
            "/proc/self/status" => Some("Cpus_allowed_list:\t0-3\n".to_owned()),
            "/sys/devices/system/cpu/online" => Some("0-7\n".to_owned()),
            _ => None,
        };
        assert_eq!(
            Cores::detect_with(&read),
            Cores {
                online: 8,
                affinity: 4,
                quota: None
            }
        );
        assert!(Cores::detect_with(&|_| None).available() >= 1);
        assert!(Cores::detect().available() >= 1);
    }

    proptest! {
        #[test]
        fn there_is_a_worker_and_never_more_than_cores(
            min: usize, max: Option<usize>, max_ratio in proptest::option::of(0.0f64..=1.0), n: usize,
        ) {
            let cores = cores(n);
            let WorkerDecision { workers, .. } = decide_workers(&WorkersConfig { min, max, max_ratio }, &cores);
            prop_assert!(workers >= 1 && workers <= cores.available());
        }

        #[test]
        fn no_list_panics(text: String) {
            parse_list(&text);
            parse_affinity(&text);
        }
    }
}
