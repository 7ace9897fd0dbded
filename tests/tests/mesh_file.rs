//! Proxies without a cluster: a mesh file takes the place of the control plane.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_tests::{
    Http1, MeshFile, Proxy, Reply, SOON, Server, Wire, binary, eventually, refused, soon,
};
use std::{
    io::Write,
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
};

/// A mesh file as a named pipe: its reader waits until [`Slow::end`].
struct Slow {
    file: MeshFile,
    text: String,
}

impl Slow {
    fn new(name: &str, text: &str) -> Self {
        let file = MeshFile::new(name, "");
        std::fs::remove_file(file.path()).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(file.path())
            .status();
        assert!(made.unwrap().success());
        let text = text.to_owned();
        Self { file, text }
    }

    /// Waits until a reader opens the pipe.
    async fn is_read(&self) -> std::fs::File {
        let path = self.file.path().to_owned();
        let open = move || std::fs::OpenOptions::new().write(true).open(path);
        let opened = soon(tokio::task::spawn_blocking(open)).await;
        opened.unwrap().unwrap()
    }

    /// Replaces the pipe with a regular file, and sends the text to the reader.
    fn end(&self, mut reader: std::fs::File) {
        let whole = self.file.path().with_extension("whole");
        std::fs::write(&whole, &self.text).unwrap();
        std::fs::rename(whole, self.file.path()).unwrap();
        reader.write_all(self.text.as_bytes()).unwrap();
    }
}

fn web(server: &Server) -> String {
    let addr = server.addr();
    format!("services:\n  - name: web\n    port: 80\n    endpoints: [{addr}]\n")
}

async fn get(proxy: &Proxy) -> Reply {
    let mut client = Http1::connect(proxy.outbound).await;
    soon(client.get("http://web/")).await.unwrap()
}

#[tokio::test]
async fn a_service_of_the_file_is_served_and_changes_are_seen() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    let file = MeshFile::new("changes", &web(&old));
    let proxy = file.start().await;
    assert_eq!(get(&proxy).await.text(), "old");
    file.write(&web(&new));
    eventually(SOON, "the change is seen", || async {
        (get(&proxy).await.text() == "new").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_typo_is_told_with_its_line_and_the_last_good_state_stays() {
    let server = Server::says("hello").await;
    let file = MeshFile::new("typo", &web(&server));
    let proxy = file.start().await;
    assert_eq!(get(&proxy).await.text(), "hello");
    file.write("services:\n  - name: web\n    port: 80\n    endpoints: [127.0.0.1:0]\n");
    proxy.wait_for_log(".yaml:4:").await;
    assert_eq!(get(&proxy).await.text(), "hello");
    file.write(&format!("{}  - nmae: shop\n", web(&server)));
    proxy.wait_for_log(".yaml:5:").await;
    assert_eq!(get(&proxy).await.text(), "hello");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_of() {
    let exit = Proxy::builder("127.0.0.1:1".parse().unwrap())
        .arg("run")
        .arg("--mesh")
        .arg("/nonexistent/mesh.yaml")
        .run()
        .await;
    assert!(!exit.status.success(), "{exit:?}");
    assert!(
        exit.output.contains("/nonexistent/mesh.yaml"),
        "{}",
        exit.output
    );
}

#[tokio::test]
async fn the_explicit_proxy_of_a_file_is_no_open_proxy() {
    let (server, stranger) = (Server::says("known").await, Server::says("stranger").await);
    let file = MeshFile::new("open", &web(&server));
    let proxy = file.start().await;
    for host in [stranger.addr().to_string(), "10.1.2.3".to_owned()] {
        let mut client = Http1::connect(proxy.outbound).await;
        let reply = soon(client.get(&format!("http://{host}/"))).await.unwrap();
        let status = reply.header("proxy-status").unwrap_or_default();
        assert!(status.contains("unknown_destination"), "{host}: {reply:?}");
        let mut wire = Wire::connect(proxy.outbound).await;
        wire.send(&format!(
            "CONNECT {host}:80 HTTP/1.1\r\nhost: {host}:80\r\n\r\n"
        ))
        .await;
        let head = wire.head().await;
        assert!(!head.starts_with("HTTP/1.1 200"), "{host}: {head}");
    }
    // The endpoint's own address is in the file.
    let mut client = Http1::connect(proxy.outbound).await;
    let uri = format!("http://{}/", server.addr());
    assert_eq!(soon(client.get(&uri)).await.unwrap().text(), "known");

    let told = file
        .builder()
        .env("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "1");
    let proxy = told.start().await;
    let mut client = Http1::connect(proxy.outbound).await;
    let uri = format!("http://{}/", stranger.addr());
    assert_eq!(soon(client.get(&uri)).await.unwrap().text(), "stranger");
}

#[tokio::test]
async fn a_file_opens_no_inbound_listener_unless_its_address_is_set() {
    let server = Server::says("hello").await;
    let file = MeshFile::new("inbound", &web(&server));
    let quiet = file.builder().without("LINKERD2_PROXY_INBOUND_LISTEN_ADDR");
    let proxy = quiet.start().await;
    assert_eq!(get(&proxy).await.text(), "hello");
    let log = proxy.log();
    assert!(!log.contains("Inbound interface"), "{log}");
    assert!(!log.contains("DEFAULT_POLICY"), "{log}");
    assert!(file.start().await.log().contains("Inbound interface"));
}

#[tokio::test]
async fn an_endpoint_may_be_a_host_name() {
    let server = Server::says("hello").await;
    let port = server.addr().port();
    let text = format!("services: [{{name: web, port: 80, endpoints: ['localhost:{port}']}}]\n");
    let file = MeshFile::new("hosts", &text);
    let proxy = file.start().await;
    assert_eq!(get(&proxy).await.text(), "hello");
    file.write(&text.replace("localhost", "nothing.invalid"));
    let line = proxy.wait_for_log("cannot be resolved").await;
    assert!(line.contains("nothing.invalid"), "{line}");
}

#[tokio::test]
async fn a_request_waits_for_the_addresses_of_a_host_name_and_not_for_endpoints_that_are_none() {
    for (endpoint, reason) in [
        ("'nothing.invalid:80'", "failfast_not_resolved"),
        ("", "failfast_no_endpoints"),
    ] {
        let text = format!("services: [{{name: web, port: 80, endpoints: [{endpoint}]}}]\n");
        let file = MeshFile::new("unresolved", &text);
        let failfast = Duration::from_millis(500);
        let proxy = file
            .builder()
            .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "500ms")
            .start()
            .await;
        let start = Instant::now();
        let reply = get(&proxy).await;
        assert_eq!(reply.status, 504, "{reply:?}");
        let status = reply.header("proxy-status").unwrap();
        assert!(status.contains(reason), "{status}");
        let is_waited_for = start.elapsed() >= failfast;
        assert_eq!(is_waited_for, !endpoint.is_empty(), "{endpoint}");
    }
}

/// A controller that runs until it is dropped.
struct Control {
    addr: SocketAddr,
    child: Child,
}

impl Control {
    async fn start(file: &MeshFile) -> Self {
        let mut child = Command::new(binary())
            .args(["control", "--listen", "127.0.0.1:0", "--mesh"])
            .arg(file.path())
            .env_clear()
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, addr)) = line.split_once("Controller listens on ") {
                    return addr.parse().unwrap();
                }
            }
            panic!("it ended");
        };
        let addr = soon(addr).await;
        Self { addr, child }
    }
}

#[tokio::test]
async fn a_controller_and_a_sidecar_are_two_processes() {
    let (old, new) = (Server::says("old").await, Server::says("new").await);
    let file = MeshFile::new("control", &web(&old));
    let mut control = Control::start(&file).await;
    let proxy = Proxy::builder(control.addr).start().await;
    assert_eq!(get(&proxy).await.text(), "old");
    file.write(&web(&new));
    eventually(SOON, "the change is seen", || async {
        (get(&proxy).await.text() == "new").then_some(())
    })
    .await;
    let pid = control.child.id().unwrap().to_string();
    let killed = Command::new("kill").arg(pid).status().await;
    assert!(killed.unwrap().success());
    assert!(soon(control.child.wait()).await.unwrap().success());
    // The proxy keeps known addresses.
    assert_eq!(get(&proxy).await.text(), "new");
}

#[tokio::test]
async fn a_controller_does_not_say_that_there_are_no_services_before_it_has_read_its_file() {
    let server = Server::says("hello").await;
    let file = Slow::new("slow-control", &web(&server));
    let (addr, _guard) = refused();
    let mut child = Command::new(binary())
        .args(["control", "--listen", &addr.to_string(), "--mesh"])
        .arg(file.file.path())
        .env_clear()
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let reader = file.is_read().await;
    assert!(TcpStream::connect(addr).await.is_err(), "it listens");
    file.end(reader);
    eventually(SOON, "the controller listens", || async {
        TcpStream::connect(addr).await.ok()
    })
    .await;
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_hangup_while_the_file_is_read_does_not_kill_it() {
    let server = Server::says("hello").await;
    let file = Slow::new("slow-hangup", &web(&server));
    let mut child = Command::new(binary())
        .args(["run", "--mesh"])
        .arg(file.file.path())
        .env_clear()
        .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:0")
        .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let reader = file.is_read().await;
    let pid = child.id().unwrap().to_string();
    let killed = Command::new("kill").args(["-HUP", &pid]).status().await;
    assert!(killed.unwrap().success());
    file.end(reader);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let heard = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("received SIGHUP, reading the mesh file again") {
                return;
            }
        }
        panic!("it ended");
    };
    soon(heard).await;
    child.kill().await.unwrap();
}

#[tokio::test]
async fn a_check_warns_of_a_service_without_endpoints() {
    let file = MeshFile::new(
        "empty",
        "services: [{name: web, port: 80, endpoints: []}]\n",
    );
    let path = file.path().to_str().unwrap();
    let exit = file
        .builder()
        .arguments(&["check", "--mesh", path])
        .run()
        .await;
    assert!(
        exit.output.contains("the service web has no endpoint"),
        "{}",
        exit.output
    );
    assert!(exit.output.contains("`endpoints`"), "{}", exit.output);
}

#[tokio::test]
async fn a_check_reports_all_that_is_wrong_at_once() {
    let server = Server::says("hello").await;
    let file = MeshFile::new("check", &web(&server));
    let path = file.path().to_str().unwrap();
    let check = || file.builder().arguments(&["check", "--mesh", path]);
    let good = check().run().await;
    assert!(good.status.success(), "{good:?}");
    assert!(good.output.contains("1 service and 1 endpoint"), "{good:?}");

    file.write("services:\n- nmae: web\n  port: 0\n");
    let wrong = check()
        .env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "5")
        .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADR", "127.0.0.1:1");
    let wrong = wrong.run().await;
    assert_eq!(wrong.status.code(), Some(64));
    for told in [
        "check.yaml:2:3: unknown field `nmae`; did you mean `name`?",
        "check.yaml:3:9: 0 is not a port",
        "LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD=\"5\" is not valid",
        "did you mean LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR?",
        "3 failed",
    ] {
        assert!(wrong.output.contains(told), "{told} in {}", wrong.output);
    }
}
