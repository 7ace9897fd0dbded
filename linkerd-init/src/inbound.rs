//! The redirection of connections to this pod, as far as it can be seen from inside: connections to an own address do not take
//! the path of those that arrive, so that only the rules themselves can tell.

use crate::{
    InitError, capabilities,
    rules::Hooks,
    tools::{Family, of_family, run},
};

/// The rules for connections to this pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboundRules {
    /// The tables of a program redirect them.
    Found(String),
    /// No tables redirect them, according to these programs.
    Missing(String),
    /// The tables cannot be read here. Reading them needs NET_ADMIN and the iptables programs.
    Unknown,
}

/// Looks for the rules in both kinds of tables.
pub fn inbound_rules(family: Family) -> InboundRules {
    capabilities::pass_on();
    let programs = ["iptables-save", "iptables-nft-save", "iptables-legacy-save"];
    let mut read = Vec::new();
    let mut is_all = true;
    for program in programs.map(|program| of_family(program, family)) {
        match run(&program, &[], None) {
            Ok(output) if Hooks::of(&String::from_utf8_lossy(&output.stdout)).prerouting => {
                return InboundRules::Found(program);
            }
            Ok(_) => read.push(program),
            // Tables without a program are not in use.
            Err(InitError::Missing { .. }) => {}
            Err(_) => is_all = false,
        }
    }
    match is_all && !read.is_empty() {
        true => InboundRules::Missing(read.join(", ")),
        false => InboundRules::Unknown,
    }
}
