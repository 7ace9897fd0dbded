//! Edits of the mesh file, seen by a watching proxy.

mod support;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use linkerd_api_proto::outbound::proxy_protocol;
use linkerd_control::{
    Controller, FileWatch, HostAddresses, MeshLoad, Policy, Resolve, watch_file, watch_file_with,
};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;
use tempfile::TempDir;
use tonic::Code;

struct File {
    dir: TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("mesh.yaml");
        fs::write(&path, text).expect("written");
        Self { dir, path }
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).expect("written");
    }

    /// Replaces the file by renaming a new one, like many editors.
    fn replace(&self, text: &str) {
        let new = self.dir.path().join("mesh.yaml.new");
        fs::write(&new, text).expect("written");
        fs::rename(new, &self.path).expect("renamed");
    }
}

fn web(endpoints: &str, rest: &str) -> String {
    format!(
        "services:\n- name: web\n  port: 80\n  addresses: [10.0.0.10]\n  endpoints: [{endpoints}]\n  {rest}\n"
    )
}

async fn load(watch: &FileWatch, sequence: u64) -> MeshLoad {
    let mut loads = watch.loads();
    let load = soon(loads.wait_for(|load| load.sequence >= sequence)).await;
    load.expect("watching").clone()
}

#[tokio::test]
async fn a_file_is_read_again_when_it_is_asked_for() {
    let file = File::new(&web("127.0.0.1:1", ""));
    let watch = watch_file(Controller::new(), &file.path).await;
    watch.reload();
    let again = load(&watch, 1).await;
    assert_eq!(again.outcome, watch.last().outcome, "nothing has changed");
}

/// A network that is down during the first query.
#[derive(Default)]
struct LateNetwork(AtomicBool);

impl Resolve for LateNetwork {
    fn addresses(&self, _: &str) -> BoxFuture<'static, Result<HostAddresses, String>> {
        let answer = match self.0.swap(true, Ordering::Relaxed) {
            false => Err("unreachable".to_owned()),
            true => Ok(HostAddresses::new([[10, 96, 0, 7].into()], None)),
        };
        ready(answer).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_resolved_when_its_host_names_have_addresses() {
    let file = File::new("services:\n- {name: web, port: 80, addresses: [web.test]}\n");
    let network = Arc::new(LateNetwork::default());
    let watch = watch_file_with(Controller::new(), &file.path, network).await;
    assert!(watch.resolved().now_or_never().is_none());
    soon(watch.resolved()).await;
    let numbers = File::new(&web("127.0.0.1:1", ""));
    let watch = watch_file(Controller::new(), &numbers.path).await;
    assert!(watch.resolved().now_or_never().is_some());
}

#[tokio::test]
async fn edits_are_pushed_to_open_streams() {
    let file = File::new(&web("127.0.0.1:1", ""));
    let controller = Controller::new();
    let watch = watch_file(controller.clone(), &file.path).await;
    let first = watch.last();
    assert_eq!(first.sequence, 0);
    assert_eq!(first.outcome.map(|a| (a.services, a.endpoints)), Ok((1, 1)));

    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let mut endpoints = proxy.get("web:80").await.expect("a stream");
    assert_eq!(told(&mut endpoints).await, ["+1"]);
    let mut policy = proxy.watch("web.default:80").await.expect("a stream");
    assert_eq!(next(&mut policy).await, Policy::balance("web", 80).build());

    file.write(&web("127.0.0.1:1, 127.0.0.1:2", ""));
    assert_eq!(told(&mut endpoints).await, ["+2"]);
    file.replace(&web("127.0.0.1:2, 127.0.0.1:3", ""));
    assert_eq!(told(&mut endpoints).await, ["+3"]);
    assert_eq!(told(&mut endpoints).await, ["-1"]);
    // The policy did not change.
    nothing(&controller.policy("web.default:80"), &mut policy).await;

    file.write(&web("127.0.0.1:2, 127.0.0.1:3", "protocol: http2"));
    let kind = next(&mut policy).await.protocol.and_then(|p| p.kind);
    assert!(matches!(kind, Some(proxy_protocol::Kind::Http2(_))));

    file.write("services: []\n");
    assert_eq!(told(&mut endpoints).await, ["gone"]);
    let status = soon(policy.message()).await.expect_err("vanished");
    assert_eq!(status.code(), Code::NotFound);

    file.write(&web("127.0.0.1:9", ""));
    assert_eq!(told(&mut endpoints).await, ["+9"]);
}

#[tokio::test]
async fn a_refused_file_keeps_the_last_state_until_it_is_mended() {
    let file = File::new(&web("127.0.0.1:1", ""));
    let controller = Controller::new();
    let watch = watch_file(controller.clone(), &file.path).await;
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;
    let mut endpoints = proxy.get("web:80").await.expect("a stream");
    assert_eq!(told(&mut endpoints).await, ["+1"]);

    file.write(&web("127.0.0.1:0", ""));
    let refused = load(&watch, 1).await.outcome.expect_err("port 0");
    let expected = format!(
        "{}:5:15: endpoint 127.0.0.1:0 has port 0; use 1 to 65535",
        file.path.display()
    );
    assert_eq!(refused.to_string(), expected);
    nothing(&controller.destination("web:80"), &mut endpoints).await;

    fs::remove_file(&file.path).expect("removed");
    let refused = load(&watch, 2)
        .await
        .outcome
        .expect_err("no file")
        .to_string();
    assert!(
        refused.contains("mesh.yaml: cannot be read: No such file"),
        "{refused}"
    );
    let mut again = proxy.get("web:80").await.expect("a stream");
    assert_eq!(told(&mut again).await, ["+1"]);

    file.write(&web("127.0.0.1:2", ""));
    assert!(load(&watch, 3).await.outcome.is_ok());
    assert_eq!(told(&mut endpoints).await, ["+2"]);
    assert_eq!(told(&mut endpoints).await, ["-1"]);
}

#[tokio::test]
async fn a_file_may_be_wrong_at_first() {
    let file = File::new("services: [");
    let controller = Controller::new();
    let watch = watch_file(controller.clone(), &file.path).await;
    assert!(watch.last().outcome.is_err());
    file.replace(&web("127.0.0.1:1", ""));
    assert!(load(&watch, 1).await.outcome.is_ok());
}

#[tokio::test]
async fn a_switched_link_is_followed() {
    let file = File::new(&web("127.0.0.1:1", ""));
    let dir = file.dir.path();
    for (name, endpoint) in [("one", "127.0.0.1:1"), ("two", "127.0.0.1:2, 127.0.0.1:3")] {
        fs::create_dir(dir.join(name)).expect("created");
        fs::write(dir.join(name).join("mesh.yaml"), web(endpoint, "")).expect("written");
    }
    // Mounted as a ConfigMap: the directory is a link that is replaced.
    let link = |to: &str| {
        let new = dir.join("new");
        std::os::unix::fs::symlink(to, &new).expect("linked");
        fs::rename(&new, dir.join("current")).expect("switched");
    };
    link("one");
    let watch = watch_file(Controller::new(), dir.join("current/mesh.yaml")).await;
    link("two");
    assert_eq!(load(&watch, 1).await.outcome.map(|a| a.endpoints), Ok(2));
}

#[tokio::test]
async fn an_endpoint_is_looked_up_by_its_address() {
    let file = File::new(&web("{address: 127.0.0.1:1, labels: {zone: a}}", ""));
    let controller = Controller::new();
    let _watch = watch_file(controller.clone(), &file.path).await;
    let server = controller.spawn().await.expect("a port");
    let proxy = Proxy::connect(server.addr()).await;

    let mut profile = proxy.profile("127.0.0.1:1").await.expect("a stream");
    let endpoint = next(&mut profile).await.endpoint.expect("an endpoint");
    assert_eq!(endpoint.metric_labels["zone"], "a");
    assert!(proxy.policy(addr(1)).await.is_ok());
    let unknown = proxy.policy(addr(2)).await.expect_err("unknown");
    assert_eq!(unknown.code(), Code::NotFound);
    let service = proxy
        .policy(std::net::SocketAddr::from(([10, 0, 0, 10], 80)))
        .await;
    assert_eq!(
        service.expect("a policy"),
        Policy::balance("web", 80).build()
    );
}
