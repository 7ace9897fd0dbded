//! The command `tap`.

use super::Requests;
use linkerd_tests::{Mesh, Server, binary, refused, soon};
use serde_json::Value;
use std::process::Output;
use tokio::process::Command;

/// Runs the command to its end.
async fn tap(args: &[&str]) -> Output {
    let output = Command::new(binary())
        .arg("tap")
        .args(args)
        .kill_on_drop(true)
        .output();
    soon(output).await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_request_is_one_line_at_its_end() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let admin = mesh.proxy.admin.addr.to_string();
    let requests = Requests::start(mesh.proxy.outbound, "http://web/a?token=hidden");
    let args = [
        "--admin", &admin, "--method", "get", "--path", "/a", "--max", "2",
    ];
    let output = tap(&args).await;
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    for line in lines {
        let (_, line) = line.split_once(' ').unwrap();
        let rest = line.strip_prefix("outbound GET web/a -> 200 in ").unwrap();
        assert!(rest.contains(" ms, 5 bytes, from 127.0.0.1:"), "{line}");
        let to = format!(
            ", to {} (no tls: not_provided_by_service_discovery) of ",
            server.addr()
        );
        assert!(rest.contains(&to), "{line}");
    }
    drop(requests);
}

#[tokio::test]
async fn headers_are_below_their_request_and_json_is_all_of_it() {
    let server = Server::says("hello").await;
    let mesh = Mesh::with(&server).await;
    let admin = mesh.proxy.admin.addr.to_string();
    let requests = Requests::start(mesh.proxy.outbound, "http://web/a");
    let common = ["--admin", &admin, "--authority", "web", "--max", "1"];
    let output = tap(&[&common[..], &["--headers"]].concat()).await;
    let printed = text(&output.stdout);
    assert!(printed.contains("\n    > x-tenant: seven\n"), "{printed}");
    assert!(
        printed.contains("\n    > authorization: [redacted]\n"),
        "{printed}"
    );
    let output = tap(&[&common[..], &["--json"]].concat()).await;
    let events = text(&output.stdout).lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["event"].as_str().unwrap().to_owned()
    });
    // More requests arrive than a tap takes in a second: events for the others are dropped.
    let events: Vec<_> = events.filter(|event| event != "dropped").collect();
    assert_eq!(events, ["request", "response", "end", "closed"]);
    drop(requests);
}

#[tokio::test]
async fn bad_usage_and_a_proxy_that_does_not_answer_have_their_codes() {
    for (args, named) in [
        (
            ["--direction", "up"],
            "--direction: \"up\" is not inbound or outbound",
        ),
        (["--to", "web"], "--to: \"web\" is not an IP address"),
        (["--max", "0"], "--max: \"0\" is not a number"),
        (["--max-rps", "x"], "--max-rps: \"x\" is not a number"),
        (
            ["--path", "api"],
            "--path: \"api\" is not the beginning of a path",
        ),
        (["--colour", "red"], "--colour"),
    ] {
        let output = tap(&args).await;
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(text(&output.stderr).contains(named), "{output:?}");
    }
    let (refused, _guard) = refused();
    let output = tap(&["--admin", &refused.to_string()]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("--admin sets another address"),
        "{output:?}"
    );
}
