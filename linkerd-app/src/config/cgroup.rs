//! The CPU quota that control groups, version 1 and 2, set for this process.
//!
//! Quotas are set on directories, and each directory limits those below it, so the smallest one up to the mount point
//! counts. The parsers are pure; files are read through a function, which tests replace.

/// A quota of CPU time and its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuQuota {
    /// CPU time in cores: 1.5 is one and a half.
    pub cores: f64,
    /// The version of the control groups.
    pub version: u8,
}

/// Reads a file of `/proc` or `/sys`; `None` if it cannot be read.
pub(super) type ReadFile<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The smallest quota of this process, if any.
pub(super) fn quota(read: ReadFile<'_>) -> Option<CpuQuota> {
    let memberships = read("/proc/self/cgroup")?;
    let mounts = read("/proc/self/mountinfo")?;
    let quotas = groups(&memberships, &mounts).into_iter().flat_map(|group| {
        let version = group.version;
        let cores = group
            .directories()
            .into_iter()
            .filter_map(move |dir| group.version.quota_of(&dir, read));
        cores.map(move |cores| CpuQuota {
            cores,
            version: version.number(),
        })
    });
    quotas.min_by(|a, b| a.cores.total_cmp(&b.cores))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A control group of this process: a directory below a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    mount: String,
    /// Starts with `/`, or is empty for the mount point itself.
    path: String,
}

impl Group {
    /// Directories from the mount point down to the group.
    fn directories(&self) -> Vec<String> {
        let parents = self
            .path
            .match_indices('/')
            .map(|(end, _)| end)
            .filter(|&end| end > 0);
        let ends = [0]
            .into_iter()
            .chain(parents)
            .chain((!self.path.is_empty()).then_some(self.path.len()));
        ends.map(|end| format!("{}{}", self.mount, &self.path[..end]))
            .collect()
    }
}

impl Version {
    fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    fn quota_of(self, dir: &str, read: ReadFile<'_>) -> Option<f64> {
        match self {
            Self::V1 => parse_cfs(
                &read(&format!("{dir}/cpu.cfs_quota_us"))?,
                &read(&format!("{dir}/cpu.cfs_period_us"))?,
            ),
            Self::V2 => parse_cpu_max(&read(&format!("{dir}/cpu.max"))?),
        }
    }
}

/// `cpu.max` of version 2: `max 100000`, or a quota and a period in microseconds.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota, period)
}

/// `cpu.cfs_quota_us` and `cpu.cfs_period_us` of version 1; a quota of -1 is none.
fn parse_cfs(quota: &str, period: &str) -> Option<f64> {
    share(quota, period)
}

fn share(quota: &str, period: &str) -> Option<f64> {
    let microseconds = |text: &str| text.trim().parse::<u64>().ok().filter(|&us| us > 0);
    Some(microseconds(quota)? as f64 / microseconds(period)? as f64)
}

/// The groups in which a quota may be set: from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn groups(memberships: &str, mounts: &str) -> Vec<Group> {
    memberships
        .lines()
        .filter_map(|line| group(line, mounts))
        .collect()
}

/// A line of `/proc/self/cgroup` is `0::/path` for version 2 and `4:cpu,cpuacct:/path` for version 1.
fn group(line: &str, mounts: &str) -> Option<Group> {
    let mut fields = line.splitn(3, ':');
    let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let version = match controllers {
        "" if hierarchy == "0" => Version::V2,
        controllers if has_cpu(controllers) => Version::V1,
        _ => return None,
    };
    let (root, mount) = mounts.lines().find_map(|line| mount_of(line, version))?;
    Some(Group {
        version,
        mount: mount.trim_end_matches('/').to_owned(),
        path: below(path, root),
    })
}

/// A line of `mountinfo` is `ID PARENT DEVICE ROOT MOUNT OPTIONS [FIELDS] - TYPE SOURCE SUPEROPTIONS`.
fn mount_of(line: &str, version: Version) -> Option<(&str, &str)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut filesystem = filesystem.split(' ');
    let (kind, options) = (filesystem.next()?, filesystem.nth(1).unwrap_or_default());
    let matches = match version {
        Version::V1 => kind == "cgroup" && has_cpu(options),
        Version::V2 => kind == "cgroup2",
    };
    let mut fields = mount.split(' ').skip(3);
    matches.then_some((fields.next()?, fields.next()?))
}

fn has_cpu(list: &str) -> bool {
    list.split(',').any(|item| item == "cpu")
}

/// The part of a group's path below the root of its mount: a container without its own namespace sees the path of the host,
/// of which the last part is mounted. A path outside of the mount counts as the mount point.
fn below(path: &str, root: &str) -> String {
    let path = path
        .strip_prefix(root.trim_end_matches('/'))
        .unwrap_or_default();
    let outside = !path.starts_with('/') || path.split('/').any(|part| part == "..");
    if outside {
        String::new()
    } else {
        path.trim_end_matches('/').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
";

    const MOUNTS_V1: &str = "\
30 22 0:26 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
31 22 0:27 /kubepods/pod1/c1 /sys/fs/cgroup/cpu,cpuacct ro master:1 - cgroup cgroup rw,cpu,cpuacct
";

    fn quota_of(files: &[(&str, &str)]) -> Option<CpuQuota> {
        let files: HashMap<_, _> = files.iter().copied().collect();
        quota(&|path| files.get(path).map(|text| text.to_string()))
    }

    #[test]
    fn reads_version_2() {
        let quota = quota_of(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", MOUNTS),
            ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(
            quota,
            Some(CpuQuota {
                cores: 1.5,
                version: 2
            })
        );
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let quota = quota_of(&[
            ("/proc/self/cgroup", "0::/system.slice/pod/proxy.scope"),
            ("/proc/self/mountinfo", MOUNTS),
            ("/sys/fs/cgroup/system.slice/cpu.max", "max 100000"),
            ("/sys/fs/cgroup/system.slice/pod/cpu.max", "50000 100000"),
            (
                "/sys/fs/cgroup/system.slice/pod/proxy.scope/cpu.max",
                "400000 100000",
            ),
        ]);
        assert_eq!(
            quota,
            Some(CpuQuota {
                cores: 0.5,
                version: 2
            })
        );
    }

    #[test]
    fn reads_version_1_where_the_mount_is_a_part_of_the_host_path() {
        let quota = quota_of(&[
            (
                "/proc/self/cgroup",
                "5:memory:/kubepods/pod1/c1\n4:cpu,cpuacct:/kubepods/pod1/c1\n0::/\n",
            ),
            ("/proc/self/mountinfo", MOUNTS_V1),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(
            quota,
            Some(CpuQuota {
                cores: 2.0,
                version: 1
            })
        );
    }

    #[test]
    fn no_limit_is_no_quota() {
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cfs("-1\n", "100000\n"), None);
        assert_eq!(parse_cpu_max("100000 0"), None);
        assert_eq!(parse_cpu_max(""), None);
        assert_eq!(quota_of(&[]), None);
        assert_eq!(
            quota_of(&[("/proc/self/cgroup", "0::/"), ("/proc/self/mountinfo", "")]),
            None
        );
    }

    #[test]
    fn a_path_outside_of_the_mount_counts_as_the_mount_point() {
        for (path, root, expected) in [
            ("/", "/", ""),
            ("/a/b", "/", "/a/b"),
            ("/a/b", "/a", "/b"),
            ("/a/b", "/a/b", ""),
            ("/../other", "/", ""),
            ("/ab", "/a", ""),
            ("", "/", ""),
        ] {
            assert_eq!(below(path, root), expected, "{path} {root}");
        }
    }

    proptest! {
        #[test]
        fn no_file_panics(text: String, mounts: String) {
            parse_cpu_max(&text);
            parse_cfs(&text, &mounts);
            for group in groups(&text, &mounts) {
                group.directories();
            }
        }
    }
}
