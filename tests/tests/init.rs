//! `linkerd-proxy init` and `linkerd-proxy await`, run like by a pod's containers.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{Mesh, SOON, binary, eventually, netns::isolated, refused, skipped};
use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Output, Stdio},
};

fn run(program: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program).args(args).output().unwrap();
    let text = [stdout, stderr].concat();
    (status.code(), String::from_utf8(text).unwrap())
}

fn init(args: &[&str]) -> (Option<i32>, String) {
    run(binary(), &[&["init"], args].concat())
}

/// The rules of one family, without their counters.
fn rules(program: &str) -> String {
    let (code, text) = run(Path::new(program), &["-t", "nat"]);
    assert_eq!(code, Some(0), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("-A"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The arguments of linkerd2's injector.
const INJECTED: &[&str] = &[
    "--firewall-bin-path",
    "iptables-nft",
    "--firewall-save-bin-path",
    "iptables-nft-save",
    "--ipv6=false",
    "--incoming-proxy-port",
    "4143",
    "--outgoing-proxy-port",
    "4140",
    "--proxy-uid",
    "2102",
    "--inbound-ports-to-ignore",
    "4190,4191,4567,4568",
    "--outbound-ports-to-ignore",
    "4567,4568",
    "--log-format",
    "plain",
    "--log-level",
    "info",
];

#[test]
fn init_redirects_once_and_the_check_tells() {
    isolated("init_redirects_once_and_the_check_tells", async {
        for line in [
            "link add pod0 type veth peer name node0",
            "addr add 10.99.0.2/24 dev pod0",
            "link set pod0 up",
            "link set node0 up",
            // Loopback is not redirected.
            "route add 1.1.1.1/32 dev pod0",
        ] {
            let (code, text) = run(Path::new("ip"), &line.split(' ').collect::<Vec<_>>());
            assert_eq!(code, Some(0), "{line}: {text}");
        }
        let check = ["--check", "--timeout", "2s"];
        let (code, text) = init(&check);
        assert_eq!(code, Some(95), "{text}");
        assert!(text.contains("run `linkerd-proxy init`"), "{text}");

        let (code, text) = init(INJECTED);
        assert_eq!(code, Some(0), "{text}");
        let first = rules("iptables-nft-save");
        for part in [
            "--uid-owner 2102",
            "--dports 4190,4191,4567,4568",
            "--to-ports 4143",
            "--to-ports 4140",
        ] {
            assert!(first.contains(part), "{part} in {first}");
        }
        let (code, text) = init(&check);
        assert_eq!(code, Some(0), "{text}");
        let rules_found = "connections to here: iptables-save has the rules";
        assert!(text.contains(rules_found), "{text}");
        // The rules of inbound connections are read; a user without permissions cannot.
        let (code, text) = run(
            Path::new("iptables-nft"),
            &["-t", "nat", "-F", "PREROUTING"],
        );
        assert_eq!(code, Some(0), "{text}");
        let (code, text) = init(&check);
        assert_eq!(code, Some(0), "{text}");
        let warning = "warning: connections to here are not redirected";
        assert!(text.contains(warning), "{text}");
        let directory = tempfile::tempdir().unwrap();
        let mut validator = Command::new(copied(directory.path(), "linkerd2-network-validator"));
        let validator = validator.args(&check[1..]).uid(NOBODY).gid(NOBODY);
        let output = validator.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("connections to here: not checked"), "{text}");
        assert_eq!(init(INJECTED).0, Some(0));
        // Run again, with another rule: existing rules are replaced, not duplicated.
        assert_eq!(init(INJECTED).0, Some(0));
        assert_eq!(rules("iptables-nft-save"), first);
        let more = ["--outbound-ports-to-ignore", "5432"];
        assert_eq!(init(&[INJECTED, &more].concat()).0, Some(0));
        let changed = rules("iptables-nft-save");
        assert!(changed.contains("4567,4568,5432"), "{changed}");
        assert_eq!(changed.lines().count(), first.lines().count());
    });
}

#[test]
fn init_redirects_both_families_of_the_system_s_own_tables() {
    isolated(
        "init_redirects_both_families_of_the_system_s_own_tables",
        async {
            let (code, text) = init(&["--subnets-to-ignore", "192.0.2.0/24,2001:db8::/32"]);
            assert_eq!(code, Some(0), "{text}");
            let (v4, v6) = (rules("iptables-save"), rules("ip6tables-save"));
            assert!(
                v4.contains("-s 192.0.2.0/24") && !v4.contains("db8"),
                "{v4}"
            );
            assert!(
                v6.contains("-s 2001:db8::/32") && !v6.contains("192.0.2"),
                "{v6}"
            );
            let check = "[::1]:20001";
            let listen = ["--check", "--listen-addr", "[::]:4140", "--timeout", "2s"];
            // Loopback is not redirected.
            let (code, _) = init(&[&listen[..], &["--connect-addr", check]].concat());
            assert_eq!(code, Some(95));
        },
    );
}

/// As in the image, whose init container runs as a user other than root.
#[test]
fn init_of_another_user_has_the_capabilities_of_its_file() {
    let name = "init_of_another_user_has_the_capabilities_of_its_file";
    isolated(name, async {
        let directory = tempfile::tempdir().unwrap();
        let program = copied(directory.path(), "linkerd2-proxy-init");
        let run = || {
            let mut command = Command::new(&program);
            let output = command.args(INJECTED).uid(NOBODY).gid(NOBODY).output();
            let output = output.unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stderr).unwrap(),
            )
        };
        let (code, text) = run();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("NET_ADMIN and NET_RAW"), "{text}");
        permit_network_administration(&program);
        let (code, text) = run();
        assert_eq!(code, Some(0), "{text}");
        assert!(rules("iptables-nft-save").contains("--uid-owner 2102"));
    });
}

/// A copy of the program that each user may run.
fn copied(directory: &Path, name: &str) -> std::path::PathBuf {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, open).unwrap();
    let program = directory.join(name);
    std::fs::copy(binary(), &program).unwrap();
    program
}

/// Sets what `setcap cap_net_admin,cap_net_raw=p` sets: permitted, and not effective by itself.
fn permit_network_administration(program: &Path) {
    const REVISION_2: u32 = 0x0200_0000;
    const NET_ADMIN: u32 = 12;
    const NET_RAW: u32 = 13;
    let words = [REVISION_2, 1 << NET_ADMIN | 1 << NET_RAW, 0, 0, 0];
    let bytes: Vec<_> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(program, "security.capability", &bytes, flags).unwrap();
}

const NOBODY: u32 = 65534;

#[test]
fn init_says_what_is_wrong_and_sets_nothing() {
    isolated("init_says_what_is_wrong_and_sets_nothing", async {
        for (args, message) in [
            (&["--proxy-uid", "0"][..], "must not run as root"),
            (&["-p", "4140"], "they must differ"),
            (&["-r", "80,0"], "port 0 cannot be redirected"),
            (&["-o", "0"], "0 is not in 1..=65535"),
            (&["-i", "8099-8000"], "a range such as 8000-8099"),
            (&["--subnets-to-ignore", "10.0.0.0"], "10.0.0.0"),
            (
                &["--firewall-bin-path", "no-iptables"],
                "no-iptables-save cannot be run",
            ),
            (&["--netns", "/no/such/namespace"], "/no/such/namespace"),
        ] {
            let (code, text) = init(args);
            assert!(!matches!(code, Some(0) | None), "{args:?}: {text}");
            assert!(text.contains(message), "{args:?}: {text}");
        }
        let (code, text) = init(&["--simulate"]);
        assert_eq!(code, Some(0));
        assert!(
            text.contains("# IPv6") && text.contains("-j REDIRECT"),
            "{text}"
        );
        assert_eq!(rules("iptables-save"), "");

        // A family without programs: the other one stays as it is.
        let directory = tempfile::tempdir().unwrap();
        let tool = |name: &str| directory.path().join(name);
        for name in ["iptables-nft-save", "iptables-nft-restore"] {
            std::os::unix::fs::symlink(system(name), tool(name)).unwrap();
        }
        let firewall = tool("iptables-nft").display().to_string();
        let firewall = ["--firewall-bin-path", &firewall];
        let (code, text) = init(&firewall);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("ip6tables-nft-save cannot be run"), "{text}");
        assert!(text.contains("--ipv6=false"), "{text}");
        assert_eq!(rules("iptables-nft-save"), "");

        // A setting of the kernel that cannot be written.
        let line =
            "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec \"$@\"";
        let program = binary().display().to_string();
        let wait = ["--timeout-close-wait-secs", "3600"];
        let args = ["-m", "sh", "-c", line, "sh", &program, "init"];
        let (code, text) = run(Path::new("unshare"), &[&args[..], &wait].concat());
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("close_wait: Read-only file system"), "{text}");
        assert_eq!(rules("iptables-save") + &rules("ip6tables-save"), "");

        // A failure after the first family was set, without and with earlier rules.
        std::os::unix::fs::symlink(system("ip6tables-nft-save"), tool("ip6tables-nft-save"))
            .unwrap();
        let restore = system("ip6tables-nft-restore");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--test*) exec {} \"$@\";; esac\necho full >&2\nexit 1\n",
            restore.display()
        );
        std::fs::write(tool("ip6tables-nft-restore"), script).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(tool("ip6tables-nft-restore"), open).unwrap();
        for earlier in [false, true] {
            if earlier {
                assert_eq!(init(&[INJECTED, &["-r", "80"]].concat()).0, Some(0));
            }
            let before = rules("iptables-nft-save");
            assert_eq!(before.contains("--dport 80"), earlier);
            let (code, text) = init(&firewall);
            assert_eq!(code, Some(1), "{text}");
            assert!(
                text.contains("failed: full; all tables are as they were before"),
                "{text}"
            );
            assert_eq!(rules("iptables-nft-save"), before);
        }
    });
}

/// The kernel applies the rules of both kinds of tables.
#[test]
fn init_warns_about_rules_in_the_other_tables() {
    isolated("init_warns_about_rules_in_the_other_tables", async {
        let warning = |program: &str| format!("warning: {program} has rules of an earlier run");
        let (code, text) = init(&["--iptables-mode", "legacy", "--ipv6=false"]);
        if code != Some(0) {
            // Newer kernels have no legacy tables.
            return skipped(&text);
        }
        assert!(!text.contains("warning: "), "{text}");
        let (code, text) = init(&["--iptables-mode", "nft"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&warning("iptables-legacy")), "{text}");
        assert!(!text.contains("ip6tables-legacy has"), "{text}");
        let (code, text) = init(&["--iptables-mode", "legacy", "--ipv6=false"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(&warning("iptables-nft")), "{text}");
    });
}

/// The path of a program.
fn system(name: &str) -> std::path::PathBuf {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.exists()).unwrap()
}

#[test]
fn a_program_named_as_linkerd2_s_is_the_command() {
    let directory = tempfile::tempdir().unwrap();
    for (name, message) in [
        ("linkerd2-proxy-init", "--incoming-proxy-port"),
        ("linkerd-await", "--backoff"),
    ] {
        let program = directory.path().join(name);
        std::os::unix::fs::symlink(binary(), &program).unwrap();
        let (code, text) = run(&program, &["--help"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[tokio::test]
async fn await_runs_a_command_when_the_proxy_is_ready() {
    let enabled = "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED";
    let mut mesh = Mesh::builder().env(enabled, "true").start().await;
    let port = mesh.proxy.admin.addr.port().to_string();
    let wait = move |args: &[&str]| {
        let args: Vec<_> = ["await", "--port", &port]
            .iter()
            .chain(args)
            .map(ToString::to_string)
            .collect();
        tokio::task::spawn_blocking(move || {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            run(binary(), &args)
        })
    };
    let (code, text) = wait(&["--", "sh", "-c", "echo started; exit 7"])
        .await
        .unwrap();
    assert_eq!((code, &*text), (Some(7), "started\n"));
    assert_eq!(wait(&[]).await.unwrap(), (Some(0), String::new()));
    // With a job, the proxy ends when the job does.
    let (code, text) = wait(&["--shutdown", "--", "sh", "-c", "exit 3"])
        .await
        .unwrap();
    assert_eq!(code, Some(3), "{text}");
    assert!(mesh.proxy.wait_exit(SOON).await.success());
}

#[test]
fn await_gives_up_in_time_and_names_the_proxy() {
    let (addr, _bound) = refused();
    let port = addr.port().to_string();
    let args = [
        "await",
        "--port",
        &port,
        "--timeout",
        "100ms",
        "--backoff",
        "50ms",
        "--",
        "true",
    ];
    let (code, text) = run(binary(), &args);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains(&port) && text.contains("/state"), "{text}");
}

/// The kubelet signals only a container's first process.
#[tokio::test]
async fn await_passes_signals_on_to_the_command_and_ends_with_its_code() {
    let enabled = "LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED";
    let mut mesh = Mesh::builder().env(enabled, "true").start().await;
    let port = mesh.proxy.admin.addr.port().to_string();
    let started = tempfile::tempdir().unwrap();
    let mark = started.path().join("started");
    let line = format!(
        "trap 'echo ending; exit 9' TERM; touch {}; while :; do sleep 0.01; done",
        mark.display()
    );
    let child = Command::new(binary())
        .args(["await", "--port", &port, "--shutdown", "--", "sh", "-c"])
        .arg(line)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually(SOON, "the command runs", || async {
        mark.exists().then_some(())
    })
    .await;
    let id = child.id().to_string();
    assert_eq!(run(Path::new("kill"), &["-TERM", &id]).0, Some(0));
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let ended = ended.await.unwrap();
    assert_eq!(ended.status.code(), Some(9));
    assert_eq!(ended.stdout, b"ending\n");
    assert!(mesh.proxy.wait_exit(SOON).await.success());
}
