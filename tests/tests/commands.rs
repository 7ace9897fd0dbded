//! The output of the binary's commands.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::binary;
use serde_json::Value;
use std::{
    fs,
    process::{Command, Output},
};

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
        ".SH \"EXIT STATUS\"",
        ".SH ENVIRONMENT",
        "\\fBLINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS\\fR",
        ".SH FILES",
        ".SH SIGNALS",
        "\\fBSIGHUP\\fR",
        ".SH EXAMPLES",
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

/// Runs the binary without an environment.
fn run(args: &[&str], vars: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.args(args).env_clear().envs(vars.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_word_that_belongs_to_an_option_or_a_command_gets_that_as_a_tip() {
    for (args, tip) in [
        ("run mesh.yaml", "linkerd-proxy run … --mesh mesh.yaml"),
        ("mesh.yaml", "linkerd-proxy run --mesh mesh.yaml"),
        ("check mesh.yml", "linkerd-proxy check … --mesh mesh.yml"),
        (
            "control mesh.yaml",
            "linkerd-proxy control … --mesh mesh.yaml",
        ),
        ("env mesh.yaml", "linkerd-proxy env … --mesh mesh.yaml"),
        (
            "quickstart a.yaml",
            "linkerd-proxy quickstart … --file a.yaml",
        ),
        (
            "explain GET http://web/ mesh.yaml",
            "explain … --mesh mesh.yaml",
        ),
        (
            "explain http://web/",
            "linkerd-proxy explain GET http://web/",
        ),
        (
            "explain --json http://web/",
            "linkerd-proxy explain GET http://web/",
        ),
        ("explain web", "linkerd-proxy explain GET http://web"),
        ("http://web/", "linkerd-proxy explain GET http://web/"),
        ("check 127.0.0.1:4191", "check … --admin 127.0.0.1:4191"),
        ("tap [::1]:4191", "linkerd-proxy tap … --admin [::1]:4191"),
        (
            "check --admin http://localhost:4191/",
            "port: 127.0.0.1:4191",
        ),
        ("tap --admin ::1:9001", "port: [::1]:9001"),
    ] {
        let words: Vec<_> = args.split(' ').collect();
        let output = run(&words, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args}");
        let tips: Vec<_> = error
            .lines()
            .filter(|line| line.contains("tip: "))
            .collect();
        assert!(
            tips.len() == 1 && tips[0].ends_with(tip),
            "{tip} for {args}: {error}"
        );
    }
}

#[test]
fn a_mesh_file_can_be_checked_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mesh.yaml");
    let file_name = file.to_str().unwrap();
    fs::write(
        &file,
        "services:\n  - name: web\n    port: 80\n    endpoints: [{address: 127.0.0.1:8001}]\n",
    )
    .unwrap();
    // The proxy of this environment could not start.
    let wrong = [("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "never")];
    let whole = run(&["check", "--mesh", file_name], &wrong);
    assert_eq!(whole.status.code(), Some(64), "{whole:?}");

    let args = ["check", "--mesh", file_name, "--mesh-only"];
    let alone = run(&args, &wrong);
    let text = String::from_utf8(alone.stdout).unwrap();
    assert_eq!(alone.status.code(), Some(0), "{text}");
    assert!(text.contains("1 service and 1 endpoint"), "{text}");
    assert!(
        text.ends_with("1 ok, 0 warnings, 0 skipped, 0 failed\n"),
        "{text}"
    );

    fs::write(
        &file,
        "services:\n  - name: web\n    port: 80\n    endpoints: [{address: 127.0.0.1:0}]\n",
    )
    .unwrap();
    let refused = run(&args, &[]);
    let text = String::from_utf8(refused.stdout).unwrap();
    assert_eq!(refused.status.code(), Some(64), "{text}");
    assert!(text.contains("mesh.yaml:4:"), "{text}");

    let without = run(&["check", "--mesh-only"], &[]);
    assert_eq!(without.status.code(), Some(64), "{without:?}");
}

/// The variable of a document of `env --json`.
fn variable<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut all = document["variables"].as_array().unwrap().iter();
    let found = all.find(|variable| variable["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

#[test]
fn env_prints_the_configuration_of_run_with_a_mesh_file_and_as_json() {
    let vars = [
        ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "1"),
        ("LINKERD2_PROXY_TYPO", "1"),
    ];
    let output = run(&["env", "--mesh", "--json"], &vars);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, value, source) in [
        (
            "LINKERD2_PROXY_DESTINATION_SVC_ADDR",
            "127.0.0.1:0",
            "run --mesh",
        ),
        (
            "LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES",
            ".",
            "run --mesh",
        ),
        ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1", "run --mesh"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "1", "environment"),
        (
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
            "127.0.0.1:4140",
            "derived",
        ),
    ] {
        let found = variable(&document, name);
        let is_value = match value {
            // A switch has several forms.
            "1" => found["value"] == "1" || found["value"] == "true",
            value => found["value"] == value,
        };
        assert!(is_value && found["source"] == source, "{found}");
    }
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(warning.contains("LINKERD2_PROXY_TYPO"), "{warning}");
    assert_eq!(document["errors"], Value::Array(Vec::new()));

    // As text.
    let output = run(&["env", "--mesh"], &vars);
    let text = String::from_utf8(output.stdout).unwrap();
    let explicit = text
        .lines()
        .find(|line| line.starts_with("LINKERD_PROXY_OUTBOUND_EXPLICIT "));
    assert!(explicit.unwrap().ends_with("  run --mesh"), "{text}");
}

#[test]
fn env_reports_errors_of_variables_and_of_the_mesh_file_as_json() {
    let vars = [("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "1sec")];
    let output = run(&["env", "--json", "--mesh", "/none/mesh.yaml"], &vars);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = |index: usize| document["errors"][index]["error"].as_str().unwrap();
    assert!(error(0).contains("/none/mesh.yaml"), "{document}");
    assert!(error(1).contains("CONNECT_TIMEOUT=\"1sec\""), "{document}");
}

#[test]
fn the_last_line_of_a_refusal_is_json_where_the_log_is() {
    let json = ("LINKERD2_PROXY_LOG_FORMAT", "json");
    let off = ("LINKERD2_PROXY_LOG", "off");
    let none = "/none/mesh.yaml";
    for (args, vars, code, message) in [
        (&[][..], &[json][..], 64, "Invalid configuration: "),
        (&[], &[json, off], 64, "Invalid configuration: "),
        (
            &["run", "--mesh", none],
            &[json],
            1,
            "Initialization failure: ",
        ),
        (
            &["control", "--mesh", none],
            &[json],
            1,
            "Initialization failure: ",
        ),
    ] {
        let output = run(args, vars);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect();
        let last = lines.last().unwrap();
        assert_eq!(last["level"], "ERROR", "{last}");
        let fields = &last["fields"];
        assert!(
            fields["message"].as_str().unwrap().starts_with(message),
            "{last}"
        );
        let hint = fields["hint"].as_str().unwrap_or_default();
        assert_eq!(
            hint.contains("linkerd-proxy quickstart"),
            args.is_empty(),
            "{last}"
        );
    }
}
