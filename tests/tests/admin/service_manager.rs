//! Notifications to a service manager, as for a systemd unit of `Type=notify`.

use linkerd_control::{Authority, Controller};
use linkerd_tests::{Mesh, Server, identity, soon, with_identity};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::net::{TcpListener, UnixDatagram};

/// The socket of a service manager.
struct ServiceManager {
    socket: UnixDatagram,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl ServiceManager {
    fn listen() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        Self {
            socket: UnixDatagram::bind(&path).unwrap(),
            path,
            _directory: directory,
        }
    }

    /// The next wanted message.
    async fn next(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = soon(self.socket.recv(&mut buffer)).await.unwrap();
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if is_wanted(&message) {
                return message;
            }
        }
    }

    async fn next_state(&self) -> String {
        self.next(|message| message != ALIVE).await
    }
}

const ALIVE: &str = "WATCHDOG=1\n";

#[tokio::test]
async fn readiness_life_and_shutdown_are_notified() {
    let manager = ServiceManager::listen();
    let server = Server::says("hello").await;
    let mut mesh = Mesh::builder()
        .env("NOTIFY_SOCKET", manager.path.display())
        .env("WATCHDOG_USEC", 100_000)
        .env("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "30s")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let ready = manager.next_state().await;
    let outbound = mesh.proxy.outbound;
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(
        ready.contains(&format!("STATUS=ready: outbound {outbound}, inbound ")),
        "{ready}"
    );
    for _ in 0..3 {
        assert_eq!(manager.next(|message| message == ALIVE).await, ALIVE);
    }
    assert_eq!(mesh.get("http://web/").await.text(), "hello");
    mesh.proxy.terminate();
    let stopping = manager.next_state().await;
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert!(
        stopping.contains("EXTEND_TIMEOUT_USEC=35000000\n"),
        "the grace period and the end of the process: {stopping}"
    );
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_proxy_without_a_certificate_is_not_ready_for_the_service_manager() {
    let manager = ServiceManager::listen();
    let authority = Arc::new(Authority::generate("root").unwrap());
    let controller = Controller::new();
    let refusal = tonic::Status::failed_precondition("the token is not known");
    controller
        .identity()
        .authority(authority.clone())
        .fail(refusal);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control = controller
        .serve_tls(listener, &authority, &[identity("control")])
        .unwrap();
    let files = tempfile::tempdir().unwrap();
    let _proxy = with_identity(
        control.addr(),
        authority.trust_anchors(),
        "web",
        files.path(),
    )
    .env("NOTIFY_SOCKET", manager.path.display())
    .start_unready()
    .await;
    let waiting = manager.next_state().await;
    assert!(waiting.starts_with("STATUS=waiting for "), "{waiting}");
    assert!(waiting.contains("certificate"), "{waiting}");
    controller.identity().restore();
    let ready = manager.next_state().await;
    assert!(ready.starts_with("READY=1\n"), "{ready}");
}
