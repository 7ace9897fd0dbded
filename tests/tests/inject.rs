//! The commands `inject` and `uninject`.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::binary;
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

#[test]
fn a_manifest_goes_through_the_pipe_and_back() {
    let injected = run(&["inject", "--proxy-image=registry.example/proxy"], POD);
    assert_eq!(injected.status.code(), Some(0));
    assert_eq!(
        text(&injected.stderr),
        "standard input:2: Pod/web: changed\n"
    );
    let once = text(&injected.stdout);
    assert!(once.starts_with("# mine\napiVersion"), "{once}");
    assert!(once.contains("- name: linkerd-proxy\n"), "{once}");
    assert_eq!(text(&run(&["inject", "-"], &once).stdout), once);
    assert_eq!(text(&run(&["uninject"], &once).stdout), POD);
}

#[test]
fn options_are_defaults_of_annotations() {
    let dir = tempfile::tempdir().unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let anchors = file(dir.path(), "anchors.pem", pem);
    let output = run(
        &[
            "inject",
            "--control-plane-namespace=mesh",
            "--identity-trust-domain=example.org",
            "--cluster-domain=example.com",
            "--identity-trust-anchors-file",
            &anchors,
            "--namespace=shop",
            "--proxy-image=registry.example/proxy",
            "--proxy-version=v9",
            "--config=proxy-log-level=debug",
            "--config=config.linkerd.io/proxy-await=disabled",
            "--ingress",
            "--ipv6",
        ],
        POD,
    );
    let found = text(&output.stdout);
    for part in [
        "linkerd.io/control-plane-ns: mesh",
        "linkerd.io/workload-ns: shop",
        "value: example.org",
        "linkerd-policy.mesh.svc.example.com.:8090",
        "image: registry.example/proxy:v9",
        "value: |\n        -----BEGIN CERTIFICATE-----\n",
        "\"debug,[{headers}]=off,[{request}]=off\"",
        "INGRESS_MODE",
        "127.0.0.1:4140,[::1]:4140",
    ] {
        assert!(found.contains(part), "{part} in {found}");
    }
    assert!(!found.contains("startupProbe"), "{found}");
}

#[test]
fn files_become_one_stream_or_a_diff() {
    let dir = tempfile::tempdir().unwrap();
    let pod = file(dir.path(), "pod.yaml", POD);
    let map = file(dir.path(), "map.yaml", "kind: ConfigMap");
    let both = text(&run(&["inject", &map, &pod], "").stdout);
    assert!(both.starts_with("kind: ConfigMap\n---\n# mine\n"), "{both}");
    let diff = text(&run(&["inject", "--diff", &map, &pod], "").stdout);
    let name = pod.trim_start_matches('/');
    assert!(
        diff.starts_with(&format!("--- a/{name}\n+++ b/{name}\n@@ ")),
        "{diff}"
    );
    assert!(!diff.contains("ConfigMap"), "{diff}");
    assert_eq!(text(&run(&["uninject", "--diff", &pod], "").stdout), "");
}

#[test]
fn after_an_error_nothing_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let pod = file(dir.path(), "pod.yaml", POD);
    let bad = file(dir.path(), "bad.yaml", "a: [");
    let missing = format!("{pod}.none");
    for (args, code, part) in [
        (vec!["inject", &pod, &bad], 64, "bad.yaml:1: malformed YAML"),
        (
            vec!["uninject", &pod, &bad],
            64,
            "bad.yaml:1: malformed YAML",
        ),
        (
            vec!["inject", "--config", "proxy-uid=0", &pod],
            64,
            "--config proxy-uid: ",
        ),
        (
            vec!["inject", "--config", "proxy-uid", &pod],
            64,
            "NAME=VALUE",
        ),
        (
            vec!["inject", "--identity-trust-anchors-file", &pod, &pod],
            64,
            "no certificate",
        ),
        (vec!["inject", &missing], 1, "pod.yaml.none: "),
    ] {
        let output = run(&args, "");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(part), "{part} in {error}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn skipped_workloads_are_named() {
    let host = POD.replace("spec:\n", "spec:\n  hostNetwork: true\n");
    let output = run(&["inject"], &host);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), host);
    let error = text(&output.stderr);
    assert!(
        error.starts_with("standard input:2: Pod/web: skipped: hostNetwork"),
        "{error}"
    );
    let output = run(&["inject", "--annotated-only"], POD);
    assert_eq!(text(&output.stdout), POD);
    assert!(text(&output.stderr).contains("linkerd.io/inject"));
}

/// The init container is this program: it must accept the arguments that injection writes.
#[test]
fn init_takes_the_arguments_of_its_container() {
    let config = [
        "--config=skip-subnets=10.9.0.0/16",
        "--config=proxy-gid=2103",
        "--config=close-wait-timeout=1h",
        "--config=skip-inbound-ports=25,9000-9010",
    ];
    let injected = text(&run(&[&["inject"], &config[..]].concat(), POD).stdout);
    let (_, args) = injected.split_once("    args:\n").unwrap();
    let lines = args.lines().map_while(|line| line.strip_prefix("    - "));
    let args: Vec<_> = lines.map(|line| line.trim_matches('"')).collect();
    assert!(args.contains(&"--timeout-close-wait-secs"), "{args:?}");
    let output = run(&[&["init", "--simulate"], &args[..]].concat(), "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("9000:9010"),
        "{}",
        text(&output.stdout)
    );
}

fn run(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads files may already have ended.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

const POD: &str = "# mine\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web   # one\n    image: web:1\n";
