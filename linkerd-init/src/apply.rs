//! Sets rules with the iptables programs.

use crate::{
    InitError, capabilities,
    rules::{Hooks, Redirection},
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsFd,
    path::Path,
    process::{Command, Output, Stdio},
};

/// An address family. Each has its own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The iptables programs, by their names for IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    /// `iptables` or an equivalent; `-restore` is appended.
    pub firewall: String,
    /// `iptables-save` or an equivalent.
    pub save: String,
    /// Whether to wait for the lock of the tables.
    pub waits: bool,
}

/// Rules that were set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The program that set them.
    pub program: String,
    /// The script that it ran.
    pub script: String,
}

impl Tools {
    fn restore(&self, family: Family) -> String {
        of_family(&format!("{}-restore", self.firewall), family)
    }

    fn save(&self, family: Family) -> String {
        of_family(&self.save, family)
    }
}

/// Replaces `iptables` in the name of the program by `ip6tables` for IPv6.
fn of_family(path: &str, family: Family) -> String {
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name),
        None => (String::new(), path),
    };
    match family {
        Family::V4 => path.to_owned(),
        Family::V6 => format!("{directory}{}", name.replacen("iptables", "ip6tables", 1)),
    }
}

/// Sets the rules of a family. The table is changed as a whole or not at all; setting them again changes nothing.
pub fn apply(
    redirection: &Redirection,
    family: Family,
    tools: &Tools,
) -> Result<Applied, InitError> {
    capabilities::pass_on();
    let save = tools.save(family);
    let saved = run(&save, &["-t", "nat"], None)?;
    let hooks = Hooks::of(&String::from_utf8_lossy(&saved.stdout));
    let script = redirection.script(family == Family::V6, hooks);
    let program = tools.restore(family);
    let args: &[&str] = match tools.waits {
        true => &["--noflush", "--wait"],
        false => &["--noflush"],
    };
    run(&program, args, Some(&script))?;
    Ok(Applied { program, script })
}

fn run(program: &str, args: &[&str], input: Option<&str>) -> Result<Output, InitError> {
    let missing = |error| InitError::Missing {
        program: program.to_owned(),
        error,
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early explains that in its output.
        let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    }
    let output = child.wait_with_output().map_err(missing)?;
    match output.status.success() {
        true => Ok(output),
        false => Err(InitError::Failed {
            program: program.to_owned(),
            reason: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

/// Moves this thread into the network namespace at a path, such as `/var/run/netns/pod`.
pub fn enter_namespace(path: &Path) -> Result<(), InitError> {
    let failed = |error: io::Error| InitError::File {
        path: path.display().to_string(),
        error,
    };
    let namespace = File::open(path).map_err(failed)?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).map_err(|error| failed(error.into()))
}

/// Sets the time after which the kernel forgets connections that one side has closed, in seconds.
pub fn set_close_wait_timeout(seconds: u32) -> Result<(), InitError> {
    fs::write(CLOSE_WAIT, seconds.to_string()).map_err(|error| InitError::File {
        path: CLOSE_WAIT.to_owned(),
        error,
    })
}

const CLOSE_WAIT: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_each_family() {
        let tools = Tools {
            firewall: "/sbin/iptables-nft".into(),
            save: "iptables-nft-save".into(),
            waits: false,
        };
        assert_eq!(tools.restore(Family::V4), "/sbin/iptables-nft-restore");
        assert_eq!(tools.restore(Family::V6), "/sbin/ip6tables-nft-restore");
        assert_eq!(tools.save(Family::V6), "ip6tables-nft-save");
        assert_eq!(
            of_family("/opt/iptables/iptables-save", Family::V6),
            "/opt/iptables/ip6tables-save"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let tools = Tools {
            firewall: "no-such-iptables".into(),
            save: "no-such-iptables-save".into(),
            waits: false,
        };
        let error = apply(&Redirection::default(), Family::V4, &tools).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("no-such-iptables-save") && error.contains("--firewall-bin-path"));
    }
}
