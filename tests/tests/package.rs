//! The Debian package: its files, and the environment file's examples.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{binary, is_installed};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The directory of the package's files; the program in it is another one, as this build's is large.
fn unpacked(work: &Path) -> PathBuf {
    let (deb, root) = (work.join("linkerd-proxy.deb"), work.join("root"));
    let build = Command::new(in_repository("deploy/debian/build.sh"))
        .args(["amd64", "/bin/true"])
        .args([deb.as_path(), binary()])
        .output()
        .unwrap();
    assert!(build.status.success(), "{build:?}");
    let unpack = Command::new("dpkg-deb")
        .arg("-x")
        .args([&deb, &root])
        .status();
    assert!(unpack.unwrap().success());
    root
}

#[test]
fn the_package_has_the_documents_and_their_links_lead_somewhere() {
    let tools = [("dpkg", "/usr/bin/dpkg-deb"), ("jq", "/usr/bin/jq")];
    if !tools
        .iter()
        .all(|(package, file)| is_installed(package, file))
    {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let root = unpacked(work.path());
    let documents = root.join("usr/share/doc/linkerd-proxy");
    let mut links = 0;
    for name in [
        "README.md",
        "docs/env.md",
        "docs/operations.md",
        "linkerd-control/README.md",
    ] {
        let path = documents.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, fs::read_to_string(in_repository(name)).unwrap());
        for target in text.split("](").skip(1) {
            let target = target.split([')', '#']).next().unwrap();
            if target.contains("://") || !target.ends_with("README.md") && !target.contains("docs/")
            {
                continue;
            }
            let is_document = target.ends_with(".md");
            let linked = path.parent().unwrap().join(target);
            assert!(!is_document || linked.exists(), "{target} of {name}");
            links += usize::from(is_document);
        }
    }
    assert!(links > 5, "{links}");

    let page = root.join("usr/share/man/man1/linkerd-proxy.1.gz");
    let mut text = String::new();
    let page = flate2::read::GzDecoder::new(fs::File::open(page).unwrap());
    std::io::Read::read_to_string(&mut { page }, &mut text).unwrap();
    // Its files are those of the package, or are made by the user.
    let files = text.split(".SH FILES").nth(1).unwrap();
    let files = files.split(".SH ").next().unwrap().replace("\\-", "-");
    let shipped = files
        .split("\\fB")
        .skip(1)
        .filter_map(|term| term.split("\\fR").next());
    let shipped: Vec<_> = shipped.filter(|path| path.starts_with("/usr")).collect();
    assert!(shipped.len() > 4, "{files}");
    for path in shipped {
        assert!(root.join(&path[1..]).exists(), "{path}");
    }

    let example = documents.join("examples/mesh.yaml");
    let mut check = Command::new(binary());
    check
        .arg("check")
        .arg("--mesh")
        .arg(example)
        .arg("--mesh-only");
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// The blocks of the environment file: the names and values that systemd reads when their `#` is removed.
fn blocks(text: &str) -> Vec<Vec<(&str, &str)>> {
    let lines = text.split("\n\n").map(|block| {
        let examples = block.lines().filter_map(|line| line.strip_prefix('#'));
        let examples = examples.filter_map(|line| line.split_once('='));
        let is_name = |name: &str| {
            name.bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        examples.filter(|(name, _)| is_name(name)).collect()
    });
    lines.filter(|block: &Vec<_>| !block.is_empty()).collect()
}

#[test]
fn the_examples_of_the_environment_file_work_when_their_number_sign_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = dir.path().join("mesh.yaml");
    fs::copy(in_repository("deploy/debian/mesh.yaml"), &mesh).unwrap();
    let text = fs::read_to_string(in_repository("deploy/debian/default")).unwrap();
    // Nothing beyond this host is asked.
    let text = text
        .replace("/etc/linkerd-proxy/mesh.yaml", mesh.to_str().unwrap())
        .replace("=control.example.com:", "=127.0.0.1:");
    let blocks = blocks(&text);
    let [by_file, by_controllers, others @ ..] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    assert!(others.len() >= 3, "{blocks:?}");
    for base in [by_file, by_controllers] {
        checked(dir.path(), base);
        for other in others {
            checked(dir.path(), &[&base[..], other].concat());
        }
    }
    checked(
        dir.path(),
        &[by_controllers.clone(), others.concat()].concat(),
    );
}

/// Checks an environment file with these lines, by the command that the file names.
fn checked(dir: &Path, lines: &[(&str, &str)]) {
    let file = dir.join("default");
    let text: String = lines
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    fs::write(&file, &text).unwrap();
    let shell = |command: &str| {
        let script = format!("set -a; . {}; {command}", file.display());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).env_clear();
        shell.output().unwrap()
    };
    // The shell reads what systemd does, which takes one pair of quotes around a value.
    let read = String::from_utf8(shell("/usr/bin/env").stdout).unwrap();
    let read: BTreeMap<_, _> = read
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    for (name, value) in lines {
        assert_eq!(read.get(name), Some(&value.trim_matches(['\'', '"'])));
    }

    let output = shell(&format!(
        "{} check --output json $PROXY_ARGS",
        binary().display()
    ));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_ne!(report["exit_code"], 64, "{text}{report:#}");
    let checks = report["checks"].as_array().unwrap().iter();
    for check in checks.filter(|check| check["section"] == "configuration") {
        assert_eq!(check["status"], "ok", "{text}{check:#}");
    }
}
