//! The output of the binary's commands.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::binary;
use std::process::Command;

fn printed(args: &[&str]) -> String {
    let output = Command::new(binary()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_version_names_binary_revision_and_profile() {
    let version = printed(&["--version"]);
    let rest = version.strip_prefix("linkerd-proxy ").unwrap();
    let (_, built) = rest.trim_end().split_once(" (").unwrap();
    let (revision, profile) = built.strip_suffix(')').unwrap().split_once(", ").unwrap();
    assert!(!revision.is_empty(), "{version}");
    assert!(["debug", "release", "dist"].contains(&profile), "{version}");
}

#[test]
fn without_an_environment_the_last_line_says_how_to_try_it() {
    let output = Command::new(binary()).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.contains("linkerd-proxy quickstart"), "{text}");
}

#[test]
fn completions_and_a_manual_page_come_out_of_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for command in [
            "quickstart",
            "control",
            "check",
            "explain",
            "tap",
            "inject",
            "uninject",
        ] {
            assert!(script.contains(command), "{command} for {shell}");
        }
    }
    let page = printed(&["man"]);
    assert!(page.contains(".TH linkerd-proxy 1"), "{page}");
    for part in [
        ".SH CONTROL",
        "\\-\\-tls\\-name",
        ".SH CHECK",
        ".SH EXPLAIN",
        ".SH TAP",
        "\\-\\-max\\-rps",
        ".SH INJECT",
        "\\-\\-control\\-plane\\-namespace",
        ".SH UNINJECT",
        ".SH QUICKSTART",
        "\\-\\-listen",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn the_quickstart_is_meshed_and_denies_the_guest_and_shows_why() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(binary())
        .args(["quickstart", "--once", "--seconds", "2"])
        .args(["--access-log", "--trace"])
        .env_clear()
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |part: &str| {
        let found = text.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part} in {text}"))
    };
    let tls = line("tls=\"true\" for ");
    assert!(
        tls.contains("(100%), frontend.mesh.local to web.mesh.local"),
        "{text}"
    );
    let guest = line("guest.mesh.local: ");
    assert!(guest.ends_with("the last one: 403 unauthorized"), "{text}");
    line("remove the # of line");
    assert!(text.contains(" 0 failed\n"), "{text}");
    for part in ["curl -i -x http://", "guest http://", "backends http://"] {
        line(part);
    }
    let printed = String::from_utf8(output.stderr).unwrap();
    // The guest's side, and the one that denies it.
    for part in ["outbound", "inbound", "unauthorized", "trace "] {
        assert!(printed.contains(part), "no {part} in {printed}");
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        0,
        "its files are removed"
    );
}

#[test]
fn a_misspelt_command_is_answered_with_the_one_that_was_meant() {
    let output = Command::new(binary()).arg("chek").output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("'check'"), "{error}");
}
