//! The examples of the README, pasted in order into one shell. They use fixed ports, so each test has a namespace.
//! The example of the library's README is that of its project.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{binary, netns::isolated, soon};
use std::process::Stdio;
use tokio::{io::AsyncWriteExt, net::TcpListener, process::Command};

const README: &str = include_str!("../../README.md");

/// The examples that need no cluster, without comments of a second terminal.
fn examples() -> Vec<&'static str> {
    let section = README.split("## Five ways to use it").nth(1).unwrap();
    let section = section.split("### In Kubernetes").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

/// The output of each example. `before` gets its index before it is pasted.
async fn paste(mut before: impl AsyncFnMut(usize)) -> Vec<String> {
    const END: &str = "=== end of an example";
    let folder = tempfile::tempdir().unwrap();
    let programs = binary().parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("bash")
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{path}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    let mut output = tokio::io::BufReader::new(shell.stdout.take().unwrap());
    let mut outputs = Vec::new();
    for (index, example) in examples().into_iter().enumerate() {
        before(index).await;
        let pasted = format!("{{\n{example}\n}} 2>&1\necho '{END}'\n");
        input.write_all(pasted.as_bytes()).await.unwrap();
        outputs.push(soon(until(&mut output, END)).await);
    }
    drop(input);
    let left = folder.path().join("trial/pids");
    assert!(!left.exists(), "all that was started has been stopped");
    soon(shell.wait()).await.unwrap();
    outputs
}

async fn until(output: &mut (impl tokio::io::AsyncBufRead + Unpin), end: &str) -> String {
    use tokio::io::AsyncBufReadExt;
    let mut text = String::new();
    while !text.trim_end().ends_with(end) {
        let read = output.read_line(&mut text).await.unwrap();
        assert!(read > 0, "the shell has ended: {text}");
    }
    text.trim_end().trim_end_matches(end).to_owned()
}

/// The outputs of the examples that contain a text.
fn of<'a>(outputs: &'a [String], text: &str) -> &'a str {
    let index = examples().iter().position(|example| example.contains(text));
    &outputs[index.unwrap()]
}

#[test]
fn pasted_in_order_every_example_shows_what_it_says() {
    isolated("pasted_in_order_every_example_shows_what_it_says", async {
        let outputs = paste(async |_| ()).await;
        let all = outputs.join("\n---\n");
        assert!(!all.contains("has ended"), "{all}");
        assert!(!all.contains("command not found"), "{all}");
        let requests = of(&outputs, "http://wob/");
        let answers = requests
            .lines()
            .filter(|line| matches!(*line, "one" | "two"));
        assert_eq!(answers.count(), 7, "{requests}");
        for text in ["web", "request_total{", "outbound"] {
            assert!(requests.contains(text), "{text}: {requests}");
        }
        let tapped = of(&outputs, "linkerd-proxy tap");
        assert_eq!(tapped.matches("GET").count(), 3, "{tapped}");
        let sidecar = of(&outputs, "start sidecar sidecar");
        assert!(
            matches!(sidecar.trim().lines().last(), Some("one" | "two")),
            "{sidecar}"
        );
        let meshed = of(&outputs, "start guest");
        assert!(meshed.contains("403 Forbidden"), "{meshed}");
        assert_eq!(
            meshed.matches("one\n").count() + meshed.matches("two\n").count(),
            1,
            "{meshed}"
        );
        assert!(
            meshed.contains("request_total{") && meshed.contains(r#"tls="true""#),
            "{meshed}"
        );
    });
}

/// Another control plane's answers would open the mesh to the guest.
#[test]
fn an_example_whose_port_is_taken_ends_there_and_admits_no_guest() {
    isolated(
        "an_example_whose_port_is_taken_ends_there_and_admits_no_guest",
        async {
            let mut other = None;
            let meshed = examples()
                .iter()
                .position(|example| example.contains("start guest"));
            let outputs = paste(async |index| {
                if Some(index) == meshed {
                    other = Some(TcpListener::bind("127.0.0.1:8087").await.unwrap());
                }
            })
            .await;
            let output = of(&outputs, "start guest");
            assert!(output.contains("control has ended:"), "{output}");
            assert!(output.contains("127.0.0.1:8087"), "{output}");
            assert!(!output.contains("HTTP/1.1"), "no request is sent: {output}");
        },
    );
}

#[test]
fn the_library_s_readme_has_the_test_of_the_example_project() {
    let readme = include_str!("../../linkerd-control/README.md");
    let section = readme.split("## In tests").nth(1).unwrap();
    let block = |language: &str| {
        let block = section.split(&format!("```{language}\n")).nth(1).unwrap();
        block.split("```").next().unwrap()
    };
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");

    let test = include_str!("../../examples/own-test/tests/failover.rs");
    assert!(squeezed(test).contains(&squeezed(block("rust,ignore"))));
    // The project is inside of the clone, a user's is beside it.
    let manifest = include_str!("../../examples/own-test/Cargo.toml");
    let dependencies = block("toml").replace("linkerd-proxy/", "../../");
    assert!(manifest.contains(&dependencies), "{dependencies}");
}
