//! Signals that do not end the proxy.

use linkerd_tests::{Http1, Mesh, Proxy, Server, soon};
use std::time::Duration;

#[tokio::test]
async fn signals_of_other_daemons_do_not_kill_it() {
    let server = Server::says("hello").await;
    let mut mesh = Mesh::with(&server).await;
    for name in ["HUP", "USR1", "USR2"] {
        mesh.proxy.signal(name);
        let line = format!("received SIG{name}, which does nothing");
        mesh.proxy.wait_for_log(&line).await;
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
    }
    mesh.proxy.terminate();
    let status = mesh.proxy.wait_exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn hangup_reads_the_mesh_file_again() {
    let server = Server::says("hello").await;
    let name = format!("linkerd-tests-{}-hangup.yaml", std::process::id());
    let file = std::env::temp_dir().join(name);
    let addr = server.addr();
    let services = format!("services: [{{name: web, port: 80, endpoints: [\"{addr}\"]}}]\n");
    std::fs::write(&file, services).unwrap();
    let proxy = Proxy::builder("127.0.0.1:1".parse().unwrap())
        .without("LINKERD2_PROXY_DESTINATION_SVC_ADDR")
        .without("LINKERD2_PROXY_POLICY_SVC_ADDR")
        .arg("run")
        .arg("--mesh")
        .arg(file.to_str().unwrap())
        .start()
        .await;
    let get = async || {
        let mut client = Http1::connect(proxy.outbound).await;
        soon(client.get("http://web/")).await.unwrap()
    };
    assert_eq!(get().await.text(), "hello");
    proxy.signal("HUP");
    proxy
        .wait_for_log("received SIGHUP, reading the mesh file again")
        .await;
    proxy.wait_for_log("Mesh file reloaded").await;
    assert_eq!(get().await.text(), "hello");
    std::fs::remove_file(&file).unwrap();
}
