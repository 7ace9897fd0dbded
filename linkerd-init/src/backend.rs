//! Rules of the proxy in the other kind of tables: a kernel applies those of nft and legacy tables both.

use crate::{
    rules::Hooks,
    tools::{Family, Tools, of_family, run},
};

/// The warning about rules of an earlier run in the tables that these programs do not change.
pub(crate) fn other_backend(family: Family, tools: &Tools) -> Option<String> {
    let save = tools.save(family);
    let version = run(&save, &["--version"], None).ok()?;
    let other = match String::from_utf8_lossy(&version.stdout).contains("nf_tables") {
        true => "iptables-legacy",
        false => "iptables-nft",
    };
    let other = of_family(&beside(&tools.save, other), family);
    // Without a table's name: the legacy program would load the modules of a table that is named.
    let saved = run(&format!("{other}-save"), &[], None).ok()?;
    let hooks = Hooks::of(&String::from_utf8_lossy(&saved.stdout));
    let is_there = hooks.prerouting || hooks.output;
    is_there.then(|| {
        format!(
            "{other} has rules of an earlier run, which the kernel applies as well; remove them (docs/redirection.md, \"Removing the rules\")"
        )
    })
}

/// The path of a program in the directory of another.
fn beside(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_program_is_in_the_same_directory() {
        assert_eq!(
            beside("/sbin/iptables-save", "iptables-nft"),
            "/sbin/iptables-nft"
        );
        assert_eq!(beside("iptables-save", "iptables-nft"), "iptables-nft");
    }
}
