//! The way back to a table's state before a change of the proxy's chains. Rules of others, which may have changed since, stay.

use crate::rules::{Hooks, OUTPUT, REDIRECT};
use std::fmt::Write;

/// The script for `iptables-restore --noflush` that restores the proxy's chains and the jumps to them, after rules were set
/// upon the output of `iptables-save`.
pub(crate) fn undo_script(saved: &str) -> String {
    let mut script = format!("*nat\n:{REDIRECT} - [0:0]\n:{OUTPUT} - [0:0]\n");
    for jump in Hooks::of(saved).missing() {
        // Writing to a string does not fail.
        let _ = writeln!(script, "-D {jump}");
    }
    for chain in [REDIRECT, OUTPUT] {
        let (declared, rule) = (format!(":{chain} "), format!("-A {chain} "));
        if !saved.lines().any(|line| line.starts_with(&declared)) {
            let _ = writeln!(script, "-X {chain}");
            continue;
        }
        for line in saved.lines().filter(|line| line.starts_with(&rule)) {
            let _ = writeln!(script, "{line}");
        }
    }
    script.push_str("COMMIT\n");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_were_not_there_are_removed() {
        let expected = "*nat\n:PROXY_INIT_REDIRECT - [0:0]\n:PROXY_INIT_OUTPUT - [0:0]\n\
            -D PREROUTING -m comment --comment \"proxy-init/install-proxy-init-prerouting\" -j PROXY_INIT_REDIRECT\n\
            -D OUTPUT -m comment --comment \"proxy-init/install-proxy-init-output\" -j PROXY_INIT_OUTPUT\n\
            -X PROXY_INIT_REDIRECT\n-X PROXY_INIT_OUTPUT\nCOMMIT\n";
        assert_eq!(
            undo_script("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"),
            expected
        );
    }

    #[test]
    fn earlier_rules_come_back() {
        let saved = "*nat\n:OUTPUT ACCEPT [0:0]\n:PROXY_INIT_OUTPUT - [0:0]\n\
            -A OUTPUT -m comment --comment \"proxy-init/install-proxy-init-output\" -j PROXY_INIT_OUTPUT\n\
            -A PROXY_INIT_OUTPUT -o lo -j RETURN\n-A OTHER -j RETURN\nCOMMIT\n";
        let expected = "*nat\n:PROXY_INIT_REDIRECT - [0:0]\n:PROXY_INIT_OUTPUT - [0:0]\n\
            -D PREROUTING -m comment --comment \"proxy-init/install-proxy-init-prerouting\" -j PROXY_INIT_REDIRECT\n\
            -X PROXY_INIT_REDIRECT\n-A PROXY_INIT_OUTPUT -o lo -j RETURN\nCOMMIT\n";
        assert_eq!(undo_script(saved), expected);
    }
}
