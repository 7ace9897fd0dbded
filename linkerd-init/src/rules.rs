//! The rules of the table `nat`.

use crate::ports::PortRange;
use ipnet::IpNet;
use std::fmt::Write;

/// The connections to redirect, and the exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// The proxy's port for connections to this pod.
    pub incoming_proxy_port: u16,
    /// The proxy's port for connections from this pod; without it they are not redirected.
    pub outgoing_proxy_port: Option<u16>,
    /// The user of the proxy, whose own connections are not redirected.
    pub proxy_uid: u32,
    /// The group of the proxy, whose own connections are not redirected.
    pub proxy_gid: Option<u32>,
    /// The ports of this pod that are redirected; all if empty.
    pub ports_to_redirect: Vec<u16>,
    /// Ports of this pod that are not redirected.
    pub inbound_ports_to_ignore: Vec<PortRange>,
    /// Ports of other hosts that are not redirected.
    pub outbound_ports_to_ignore: Vec<PortRange>,
    /// Clients whose connections to this pod are not redirected.
    pub subnets_to_ignore: Vec<IpNet>,
}

/// A redirection that would not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectionError {
    /// The proxy would be indistinguishable from other processes of root.
    #[error(
        "the proxy must not run as root: with --proxy-uid 0 all traffic of root would be left alone; give it a user of its own, such as 2102"
    )]
    RootUser,
    /// Both directions have the same port.
    #[error("the incoming and the outgoing proxy port are both {0}; they must differ")]
    SamePort(u16),
    /// A port that no connection has.
    #[error("port 0 cannot be redirected, or redirected to; ports are 1 to 65535")]
    PortZero,
}

/// The jumps to the proxy's chains that a table already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    pub(crate) prerouting: bool,
    pub(crate) output: bool,
}

impl Default for Redirection {
    /// The redirection to a proxy with the usual ports and user.
    fn default() -> Self {
        Self {
            incoming_proxy_port: 4143,
            outgoing_proxy_port: Some(4140),
            proxy_uid: 2102,
            proxy_gid: None,
            ports_to_redirect: Vec::new(),
            inbound_ports_to_ignore: Vec::new(),
            outbound_ports_to_ignore: Vec::new(),
            subnets_to_ignore: Vec::new(),
        }
    }
}

impl Hooks {
    /// Finds the jumps in the output of `iptables-save`.
    pub fn of(saved: &str) -> Self {
        let jumps = |chain: &str, to: &str| {
            let (chain, to) = (format!("-A {chain} "), format!("-j {to}"));
            let mut lines = saved.lines();
            lines.any(|line| line.starts_with(&chain) && line.trim_end().ends_with(&to))
        };
        Self {
            prerouting: jumps("PREROUTING", REDIRECT),
            output: jumps("OUTPUT", OUTPUT),
        }
    }

    /// The rules of the jumps that are not there.
    pub(crate) fn missing(self) -> impl Iterator<Item = String> {
        let jump = |chain: &str, comment: &str, to: &str| {
            format!("{chain} -m comment --comment \"proxy-init/{comment}\" -j {to}")
        };
        let prerouting = jump("PREROUTING", "install-proxy-init-prerouting", REDIRECT);
        let output = jump("OUTPUT", "install-proxy-init-output", OUTPUT);
        let jumps = [(self.prerouting, prerouting), (self.output, output)];
        jumps
            .into_iter()
            .filter(|(is_there, _)| !is_there)
            .map(|(_, jump)| jump)
    }
}

impl Redirection {
    /// Refuses settings that would not work.
    pub fn check(&self) -> Result<(), RedirectionError> {
        if self.proxy_uid == 0 {
            return Err(RedirectionError::RootUser);
        }
        let ports = [self.incoming_proxy_port].into_iter();
        let ports = ports.chain(self.outgoing_proxy_port);
        if ports
            .chain(self.ports_to_redirect.iter().copied())
            .any(|port| port == 0)
        {
            return Err(RedirectionError::PortZero);
        }
        match self.outgoing_proxy_port {
            Some(port) if port == self.incoming_proxy_port => Err(RedirectionError::SamePort(port)),
            _ => Ok(()),
        }
    }

    /// The script for `iptables-restore --noflush`, or its IPv6 equivalent. The proxy's chains are created anew, and the jumps to
    /// them are added if they are missing.
    pub fn script(&self, is_ipv6: bool, hooks: Hooks) -> String {
        let mut script = format!("*nat\n:{REDIRECT} - [0:0]\n:{OUTPUT} - [0:0]\n");
        let mut add = |chain: &str, matches: &str, comment: &str, target: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(
                script,
                "-A {chain} {matches}-m comment --comment \"proxy-init/{comment}\" -j {target}"
            );
        };
        for ports in multiport(&self.inbound_ports_to_ignore) {
            let comment = format!("ignore-port-{ports}");
            add(REDIRECT, &multiport_match(&ports), &comment, "RETURN");
        }
        for subnet in &self.subnets_to_ignore {
            if matches!(subnet, IpNet::V6(_)) == is_ipv6 {
                let comment = format!("ignore-subnet-{subnet}");
                add(REDIRECT, &format!("-s {subnet} "), &comment, "RETURN");
            }
        }
        let to_proxy = format!("REDIRECT --to-ports {}", self.incoming_proxy_port);
        if self.ports_to_redirect.is_empty() {
            add(
                REDIRECT,
                "-p tcp ",
                "redirect-all-incoming-to-proxy-port",
                &to_proxy,
            );
        }
        for port in &self.ports_to_redirect {
            let comment = format!("redirect-port-{port}-to-proxy-port");
            add(
                REDIRECT,
                &format!("-p tcp --dport {port} "),
                &comment,
                &to_proxy,
            );
        }
        let user = format!("-m owner --uid-owner {} ", self.proxy_uid);
        add(OUTPUT, &user, "ignore-proxy-user-id", "RETURN");
        if let Some(gid) = self.proxy_gid {
            let group = format!("-m owner --gid-owner {gid} ");
            add(OUTPUT, &group, "ignore-proxy-group-id", "RETURN");
        }
        add(OUTPUT, "-o lo ", "ignore-loopback", "RETURN");
        for ports in multiport(&self.outbound_ports_to_ignore) {
            let comment = format!("ignore-port-{ports}");
            add(OUTPUT, &multiport_match(&ports), &comment, "RETURN");
        }
        if let Some(port) = self.outgoing_proxy_port {
            let to_proxy = format!("REDIRECT --to-ports {port}");
            add(
                OUTPUT,
                "-p tcp ",
                "redirect-all-outgoing-to-proxy-port",
                &to_proxy,
            );
        }
        for jump in hooks.missing() {
            let _ = writeln!(script, "-A {jump}");
        }
        script.push_str("COMMIT\n");
        script
    }
}

fn multiport_match(ports: &str) -> String {
    format!("-p tcp -m multiport --dports {ports} ")
}

/// Ports in groups that fit into a rule.
fn multiport(ports: &[PortRange]) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    let mut left = 0;
    for range in ports {
        match groups.last_mut() {
            Some(group) if range.entries() <= left => {
                left -= range.entries();
                let _ = write!(group, ",{range}");
            }
            _ => {
                left = MULTIPORT_ENTRIES - range.entries();
                groups.push(range.to_string());
            }
        }
    }
    groups
}

/// The chain of connections to this pod.
pub(crate) const REDIRECT: &str = "PROXY_INIT_REDIRECT";
/// The chain of connections from this pod.
pub(crate) const OUTPUT: &str = "PROXY_INIT_OUTPUT";
/// The kernel's limit for the ports of a rule.
const MULTIPORT_ENTRIES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_usual_rules() {
        let redirection = Redirection {
            inbound_ports_to_ignore: vec![4190.into(), 4191.into()],
            outbound_ports_to_ignore: vec!["4567-4568".parse().unwrap()],
            subnets_to_ignore: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
            proxy_gid: Some(7),
            ..Redirection::default()
        };
        let expected = r#"*nat
:PROXY_INIT_REDIRECT - [0:0]
:PROXY_INIT_OUTPUT - [0:0]
-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,4191 -m comment --comment "proxy-init/ignore-port-4190,4191" -j RETURN
-A PROXY_INIT_REDIRECT -s 10.0.0.0/8 -m comment --comment "proxy-init/ignore-subnet-10.0.0.0/8" -j RETURN
-A PROXY_INIT_REDIRECT -p tcp -m comment --comment "proxy-init/redirect-all-incoming-to-proxy-port" -j REDIRECT --to-ports 4143
-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -m comment --comment "proxy-init/ignore-proxy-user-id" -j RETURN
-A PROXY_INIT_OUTPUT -m owner --gid-owner 7 -m comment --comment "proxy-init/ignore-proxy-group-id" -j RETURN
-A PROXY_INIT_OUTPUT -o lo -m comment --comment "proxy-init/ignore-loopback" -j RETURN
-A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 4567:4568 -m comment --comment "proxy-init/ignore-port-4567:4568" -j RETURN
-A PROXY_INIT_OUTPUT -p tcp -m comment --comment "proxy-init/redirect-all-outgoing-to-proxy-port" -j REDIRECT --to-ports 4140
-A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT
-A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT
COMMIT
"#;
        assert_eq!(redirection.script(false, Hooks::default()), expected);
        let ipv6 = redirection.script(true, Hooks::default());
        assert!(ipv6.contains("-s fd00::/8 ") && !ipv6.contains("10.0.0.0/8"));
    }

    #[test]
    fn named_ports_alone_are_redirected() {
        let redirection = Redirection {
            ports_to_redirect: vec![80, 443],
            outgoing_proxy_port: None,
            ..Redirection::default()
        };
        let script = redirection.script(false, Hooks::default());
        assert!(script.contains("--dport 80 ") && script.contains("--dport 443 "));
        assert!(!script.contains("redirect-all"));
    }

    #[test]
    fn jumps_that_exist_are_not_added_again() {
        let saved = "*nat\n:PREROUTING ACCEPT [0:0]\n\
                     -A PREROUTING -m comment --comment \"proxy-init/install-proxy-init-prerouting\" -j PROXY_INIT_REDIRECT\n\
                     -A OTHER -j PROXY_INIT_OUTPUT\nCOMMIT\n";
        let hooks = Hooks::of(saved);
        let script = Redirection::default().script(false, hooks);
        assert!(!script.contains("-A PREROUTING") && script.contains("-A OUTPUT"));
        let first = Redirection::default().script(false, Hooks::default());
        let again = Redirection::default().script(false, Hooks::of(&first));
        assert!(!again.contains("-A PREROUTING") && !again.contains("-A OUTPUT"));
    }

    #[test]
    fn what_would_not_work_is_refused() {
        let root = Redirection {
            proxy_uid: 0,
            ..Redirection::default()
        };
        assert_eq!(root.check(), Err(RedirectionError::RootUser));
        let same = Redirection {
            outgoing_proxy_port: Some(4143),
            ..Redirection::default()
        };
        assert_eq!(same.check(), Err(RedirectionError::SamePort(4143)));
        let zero = Redirection {
            ports_to_redirect: vec![80, 0],
            ..Redirection::default()
        };
        assert_eq!(zero.check(), Err(RedirectionError::PortZero));
        assert_eq!(Redirection::default().check(), Ok(()));
    }

    proptest! {
        #[test]
        fn no_rule_has_more_ports_than_the_kernel_takes(
            ports in prop::collection::vec((1_u16..1000, 0_u16..2), 0..100)
        ) {
            let ranges: Vec<PortRange> = ports
                .iter()
                .map(|(first, more)| format!("{first}-{}", first + more).parse().unwrap())
                .collect();
            let groups = multiport(&ranges);
            for group in &groups {
                let entries: usize = group.split(',').map(|it| it.split(':').count()).sum();
                prop_assert!(entries <= MULTIPORT_ENTRIES);
            }
            let all: Vec<_> = groups.iter().flat_map(|group| group.split(',')).collect();
            let expected: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            prop_assert_eq!(all, expected);
        }
    }
}
