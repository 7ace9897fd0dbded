//! The iptables programs.

use crate::InitError;
use std::{
    fmt,
    io::Write,
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

impl Tools {
    pub(crate) fn restore(&self, family: Family) -> String {
        of_family(&format!("{}-restore", self.firewall), family)
    }

    pub(crate) fn save(&self, family: Family) -> String {
        of_family(&self.save, family)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Replaces `iptables` in the name of the program by `ip6tables` for IPv6.
pub(crate) fn of_family(path: &str, family: Family) -> String {
    let (directory, name) = match path.rsplit_once('/') {
        Some((directory, name)) => (format!("{directory}/"), name),
        None => (String::new(), path),
    };
    match family {
        Family::V4 => path.to_owned(),
        Family::V6 => format!("{directory}{}", name.replacen("iptables", "ip6tables", 1)),
    }
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, args: &[&str], input: Option<&str>) -> Result<Output, InitError> {
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
}
