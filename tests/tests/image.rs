//! The image in a pod, by the manifest that `inject` writes, with the environment of linkerd2's injector. Needs the unpacked
//! image (`LINKERD_TESTS_IMAGE`, by `.ci/run`) and crun, as root.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{Authority, Authorization, Controller, ServerPolicy};
use linkerd_tests::{
    Admin, SOON, binary,
    container::{Container, Pod, image},
    ever,
    netns::{ELSEWHERE, POD, isolated},
    skipped, soon,
};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    net::IpAddr,
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
};
use tokio::net::{TcpListener, UdpSocket};

#[test]
fn the_image_starts_under_an_injector_and_stops() {
    if image().is_none() {
        return skipped("LINKERD_TESTS_IMAGE does not name the root file system of the image");
    }
    let name = "the_image_starts_under_an_injector_and_stops";
    isolated(name, scenario(image().unwrap()));
}

async fn scenario(image: std::path::PathBuf) {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let authority = Arc::new(Authority::generate("root").unwrap());
    let controller = Controller::new();
    controller.identity().authority(authority.clone());
    for port in [4191, 8080] {
        let policy = ServerPolicy::new("all").authorize(Authorization::all("all"));
        controller.server(port).set(policy.build());
    }
    let mut servers = Vec::new();
    for (name, port) in [
        ("linkerd-destination", 8086),
        ("linkerd-destination", 8090),
        ("linkerd-identity", 8080),
    ] {
        let listener = TcpListener::bind((ELSEWHERE, port)).await.unwrap();
        let identity = format!("{name}.linkerd.serviceaccount.identity.linkerd.cluster.local");
        servers.push(
            controller
                .serve_tls(listener, &authority, &[identity])
                .unwrap(),
        );
    }
    tokio::spawn(answer(UdpSocket::bind((ELSEWHERE, 53)).await.unwrap()));
    write("tokens/linkerd-identity-token", "token");
    let [resolver, hosts] = [
        write(
            "resolv.conf",
            &format!(
                "nameserver {ELSEWHERE}\nsearch shop.svc.cluster.local svc.cluster.local\noptions ndots:5\n"
            ),
        ),
        write("hosts", &format!("127.0.0.1 localhost\n{POD} web\n")),
    ];
    let text = |text: &str| text.to_owned();
    let pod = Pod {
        fields: &[
            ("metadata.name", text("web")),
            ("metadata.namespace", text("shop")),
            ("metadata.uid", text("1")),
            ("status.podIP", POD.to_string()),
            ("status.podIPs", POD.to_string()),
            ("spec.nodeName", text("node")),
            ("spec.serviceAccountName", text("default")),
            ("ca-bundle.crt", authority.trust_anchors().to_owned()),
        ],
        files: &[
            (files.path().join("tokens"), "/var/run/secrets/tokens"),
            (resolver, "/etc/resolv.conf"),
            (hosts, "/etc/hosts"),
        ],
    };
    let manifest = injected(&[]);
    redirect(&manifest, &pod, &image).await;

    let proxy = Container::new(&manifest["spec"]["initContainers"][1], &pod, &image);
    let running = proxy.start();
    // Like the hook of a pod whose containers wait for the proxy.
    let wait = [
        "/usr/lib/linkerd/linkerd-await",
        "--timeout=5s",
        "--port=4191",
    ];
    let started = ever(SOON, async || {
        proxy.exec(&wait).await.status.success().then_some(())
    });
    if started.await.is_none() {
        proxy.terminate().await;
        let output = soon(running.wait_with_output()).await.unwrap();
        panic!("the proxy is not ready:\n{}", said(&output));
    }
    let admin = Admin {
        addr: ([127, 0, 0, 1], 4191).into(),
    };
    assert_eq!(admin.get("/ready").await.status, 200);
    assert_eq!(controller.identity().certified(), 1);
    succeeded(
        &proxy.exec(&["/bin/sleep", "1"]).await,
        "the hook before the proxy stops",
    );
    let shell = proxy.exec(&["/bin/sh", "-c", "true"]).await;
    assert!(!shell.status.success(), "there is a shell");
    proxy.terminate().await;
    succeeded(
        &soon(running.wait_with_output()).await.unwrap(),
        "the proxy",
    );
}

/// Runs the init container as a user other than root, and then its replacement in a pod with a CNI plugin.
async fn redirect(manifest: &Value, pod: &Pod<'_>, image: &Path) {
    for line in [
        "link add pod0 type veth peer name node0",
        "addr add 10.99.0.2/24 dev pod0",
        "link set pod0 up",
        "link set node0 up",
        // Loopback is not redirected.
        "route add 1.1.1.1/32 dev pod0",
    ] {
        let output = Command::new("ip").args(line.split(' ')).output();
        succeeded(&output.unwrap(), line);
    }
    let cni = injected(&["--linkerd-cni-enabled"]);
    let validator = Container::new(&cni["spec"]["initContainers"][0], pod, image);
    let without = validator.run().await;
    assert_eq!(without.status.code(), Some(95), "{}", said(&without));
    let mut init = manifest["spec"]["initContainers"][0].clone();
    assert_eq!(init["securityContext"]["capabilities"]["drop"][0], "ALL");
    // As `inject` and linkerd2's own injector have it, and with the default of a cluster.
    for escalation in [false, true] {
        init["securityContext"]["allowPrivilegeEscalation"] = escalation.into();
        let init = Container::new(&init, pod, image);
        succeeded(&init.run().await, "init");
    }
    succeeded(&validator.run().await, "the validator");
}

/// A pod with the sidecar.
fn injected(args: &[&str]) -> Value {
    let mut child = Command::new(binary())
        .arg("inject")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 8080}]}]}}"#;
    child
        .stdin
        .take()
        .unwrap()
        .write_all(pod.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    succeeded(&output, "inject");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Answers queries like a cluster's DNS: each name has the address of the control plane, and no `SRV`.
async fn answer(socket: UdpSocket) {
    const A: [u8; 2] = [0, 1];
    let IpAddr::V4(control) = ELSEWHERE else {
        unreachable!("an address of IPv4")
    };
    let mut query = [0; 512];
    while let Ok((length, client)) = socket.recv_from(&mut query).await {
        // A head of 12 bytes, labels until an empty one, the type and the class.
        let labels = query[12..length]
            .iter()
            .position(|byte| *byte == 0)
            .unwrap();
        let question = &query[12..12 + labels + 5];
        let is_address = question[labels + 1..labels + 3] == A;
        let mut reply = query[..2].to_vec();
        // A response, authoritative; of one question.
        reply.extend([0x84, 0, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
        reply.extend(question);
        if is_address {
            // The name of the question; a time to live of five seconds; four bytes.
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
            reply.extend(control.octets());
        }
        socket.send_to(&reply, client).await.unwrap();
    }
}

#[track_caller]
fn succeeded(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}",
        output.status,
        said(output)
    );
}

fn said(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}
