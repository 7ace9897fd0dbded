//! Successful and failed starts.

use linkerd_tests::{Mesh, Proxy, skipped};
use std::{fs, net::SocketAddr};

fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().unwrap()
}

#[tokio::test]
async fn a_configuration_of_errors_is_refused_with_all_of_them() {
    let exit = Proxy::builder(nobody())
        .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", "nowhere")
        .env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "soon")
        .without("LINKERD2_PROXY_POLICY_WORKLOAD")
        .run()
        .await;
    assert_eq!(exit.status.code(), Some(64), "{exit:?}");
    for name in [
        "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
        "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT",
        "LINKERD2_PROXY_POLICY_WORKLOAD",
        "Invalid configuration:",
    ] {
        assert!(exit.output.contains(name), "no {name}:\n{}", exit.output);
    }
}

#[tokio::test]
async fn a_proxy_without_any_configuration_says_what_it_needs() {
    let exit = Proxy::builder(nobody())
        .without("LINKERD2_PROXY_DESTINATION_SVC_ADDR")
        .without("LINKERD2_PROXY_POLICY_SVC_ADDR")
        .run()
        .await;
    assert_eq!(exit.status.code(), Some(64), "{exit:?}");
    assert!(
        exit.output.contains("LINKERD2_PROXY_DESTINATION_SVC_ADDR"),
        "{}",
        exit.output
    );
}

#[tokio::test]
async fn names_that_nobody_reads_are_warned_about() {
    let proxy = Proxy::builder(nobody())
        .env("LINKERD2_PROXY_OUTBOUND_CONECT_TIMEOUT", "1s")
        .start_unready()
        .await;
    proxy
        .wait_for_log("LINKERD2_PROXY_OUTBOUND_CONECT_TIMEOUT")
        .await;
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let mesh = Mesh::start().await;
    for (name, addr) in [
        ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", mesh.proxy.outbound),
        ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", mesh.proxy.inbound),
        ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", mesh.proxy.admin.addr),
    ] {
        let exit = Proxy::builder(nobody()).env(name, addr).run().await;
        assert!(!exit.status.success(), "{exit:?}");
        assert!(exit.output.contains(&addr.to_string()), "{}", exit.output);
        assert!(exit.output.contains(name), "{}", exit.output);
    }
}

#[tokio::test]
async fn the_effective_configuration_can_be_printed() {
    let exit = Proxy::builder(nobody())
        .env("LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT", "123ms")
        .arg("env")
        .run()
        .await;
    assert!(exit.status.success(), "{exit:?}");
    let line = exit
        .output
        .lines()
        .find(|line| line.contains("OUTBOUND_CONNECT_TIMEOUT"));
    assert!(line.unwrap().contains("123ms"), "{}", exit.output);
}

#[tokio::test]
async fn a_proxy_of_two_workers_serves() {
    let server = linkerd_tests::Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_CORES", "2")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    for _ in 0..20 {
        assert_eq!(mesh.get("http://web/").await.text(), "hello");
    }
}

#[tokio::test]
async fn a_proxy_listens_on_two_addresses() {
    use linkerd_tests::{Http1, Server, soon};
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env(
            "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS",
            "127.0.0.1:0,[::1]:0",
        )
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    let line = mesh.proxy.wait_for_log("Outbound interface on [::1]").await;
    let addr = line.rsplit(' ').next().unwrap().parse().unwrap();
    for addr in [mesh.proxy.outbound, addr] {
        let reply = soon(Http1::connect(addr).await.get("http://web/")).await;
        assert_eq!(reply.unwrap().text(), "hello");
    }
}

#[tokio::test]
async fn a_controller_can_be_named_localhost() {
    use linkerd_control::{Controller, Policy};
    use linkerd_tests::{Http1, Server, soon};
    let server = Server::says("hello").await;
    let controller = Controller::new();
    controller
        .policy("web:80")
        .set(Policy::forward(server.addr()));
    let control = controller.spawn().await.unwrap();
    let name = format!("localhost.:{}", control.addr().port());
    let proxy = Proxy::builder(control.addr())
        .env("LINKERD2_PROXY_DESTINATION_SVC_ADDR", &name)
        .env("LINKERD2_PROXY_POLICY_SVC_ADDR", &name)
        .start()
        .await;
    let reply = soon(Http1::connect(proxy.outbound).await.get("http://web/")).await;
    assert_eq!(reply.unwrap().text(), "hello");
}

/// The file of the image's program has NET_RAW for `init`, and some runtimes give it to every container.
#[tokio::test]
async fn a_proxy_gives_up_the_capability_of_raw_sockets() {
    let permitted = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    let has_raw = |status: &str| permitted(status) & (1 << NET_RAW) != 0;
    if !has_raw(&fs::read_to_string("/proc/self/status").unwrap()) {
        return skipped("the tests do not have the capability NET_RAW");
    }
    let mesh = Mesh::start().await;
    let tasks = fs::read_dir(format!("/proc/{}/task", mesh.proxy.pid())).unwrap();
    let tasks: Vec<_> = tasks
        .map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap())
        .collect();
    // The allocator's thread, which is older than the program's first line, purges pages and reads nothing of peers.
    let own = tasks.iter().filter(|it| !it.contains("jemalloc_bg_thd"));
    let own: Vec<_> = own.collect();
    assert!(own.len() > 1);
    for status in own {
        assert!(!has_raw(status), "{status}");
    }
}

/// The number of the capability.
const NET_RAW: u32 = 13;
