//! Network namespaces, in which traffic is redirected to the proxy like in a pod.
//!
//! A test runs itself again inside a namespace. A [`Pod`] has servers, clients, control plane and proxy in one namespace, on
//! the loopback interface, with the addresses [`POD`], [`PEER`] and [`ELSEWHERE`]; all other addresses are routed to it,
//! and their packets are lost unless redirected. For a [`Cluster`], the namespace is the node: each pod has its own
//! namespace, with a link to the node, and is redirected by `linkerd-proxy init`.

mod cluster;
mod cluster_pod;
mod link;
mod pod_namespace;

pub use cluster::Cluster;
pub use cluster_pod::ClusterPod;
pub use link::{Capture, Captured};
pub use pod_namespace::{Inside, PodNamespace};

use crate::{Builder, Proxy, binary, skipped};
use linkerd_control::{Authorization, Controller, ServerPolicy};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
};

/// The address of the proxy's pod.
pub const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// The address of another pod.
pub const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 1, 1));
/// An address unknown to the control plane.
pub const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 2, 1));
/// The address of a service, without a listener.
pub const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10)), 80);

/// Runs a test in a new namespace. `name` is the test's full name.
///
/// Without the permission for namespaces, prints the reason and passes; if `CI` is set, fails.
pub fn isolated(name: &str, scenario: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        return runtime.unwrap().block_on(scenario);
    }
    let namespace = match Namespace::new(name) {
        Ok(namespace) => namespace,
        Err(reason) if std::env::var_os("CI").is_some() => panic!("{reason}"),
        Err(reason) => return skipped(&reason),
    };
    // Built outside of the namespace, where there is a network.
    let proxy = binary();
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, &namespace.0)
        .env("LINKERD_TESTS_PROXY", proxy)
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(
        output.status.success(),
        "inside of the namespace:\n{stdout}\n{stderr}"
    );
    assert!(
        stdout.contains("1 passed"),
        "no test is named {name}:\n{stdout}"
    );
    print!("{stdout}");
}

/// A proxy of a pod, with redirection and a control plane.
pub struct Pod {
    /// The control plane's state.
    pub controller: Controller,
    _control: linkerd_control::Server,
    /// The proxy.
    pub proxy: Proxy,
    /// Holds the proxy's binary.
    _directory: Directory,
}

impl Pod {
    /// Starts a proxy as in a pod.
    pub async fn start(describe: impl FnOnce(Builder) -> Builder) -> Self {
        let pod = Self::unredirected(describe).await;
        except_own_user();
        redirect(&pod.proxy);
        pod
    }

    /// Starts a proxy whose own traffic is redirected, too: the rules lack the exception for its user.
    pub async fn start_without_exception(describe: impl FnOnce(Builder) -> Builder) -> Self {
        let pod = Self::unredirected(describe).await;
        redirect(&pod.proxy);
        pod
    }

    async fn unredirected(describe: impl FnOnce(Builder) -> Builder) -> Self {
        let controller = Controller::new();
        let control = controller.spawn().await.unwrap();
        // Under any default policy, probes and scrapers are admitted, as by the control plane of a cluster.
        let probes = ServerPolicy::new("admin").authorize(Authorization::all("probes"));
        controller.server(ADMIN.port()).set(probes.build());
        let directory = Directory::new();
        let builder = Builder::new(control.addr())
            .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", ADMIN)
            .without("LINKERD_PROXY_OUTBOUND_EXPLICIT")
            .without("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK")
            .env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "0.0.0.0:0")
            .env("LINKERD2_PROXY_INBOUND_IPS", POD)
            .program(directory.program())
            .uid(PROXY_UID);
        Self {
            controller,
            _control: control,
            proxy: describe(builder).start().await,
            _directory: directory,
        }
    }
}

/// The rule of a pod's init container for the proxy's own traffic.
fn except_own_user() {
    let rule = format!("-m owner --uid-owner {PROXY_UID} -j RETURN");
    run(&format!("iptables -t nat -A OUTPUT -p tcp {rule}")).unwrap();
}

/// The rules of a pod's init container. The traffic of peers originates here, too, so it is redirected as output.
fn redirect(proxy: &Proxy) {
    let (inbound, outbound) = (proxy.inbound.port(), proxy.outbound.port());
    let rules = [
        "-d 127.0.0.0/8 -j RETURN".to_owned(),
        format!("-d {POD} -j REDIRECT --to-ports {inbound}"),
        format!("-j REDIRECT --to-ports {outbound}"),
    ];
    for rule in rules {
        run(&format!("iptables -t nat -A OUTPUT -p tcp {rule}")).unwrap();
    }
}

/// A namespace, removed on drop.
struct Namespace(String);

impl Namespace {
    fn new(test: &str) -> Result<Self, String> {
        let number = test
            .bytes()
            .fold(5381_u32, |sum, byte| sum.wrapping_mul(33) ^ u32::from(byte));
        let name = format!("ldtest-{}-{number:x}", std::process::id());
        run("iptables --version")?;
        run(&format!("ip netns add {name}"))
            .map_err(|error| format!("network namespaces need root: {error}"))?;
        let namespace = Self(name);
        let inside = |command: &str| run(&format!("ip -n {} {command}", namespace.0));
        inside("link set lo up")?;
        for addr in [POD, PEER, ELSEWHERE] {
            inside(&format!("addr add {addr}/32 dev lo"))?;
        }
        inside(&format!("route add default dev lo src {POD}"))?;
        run(&format!("ip netns exec {} iptables -t nat -S", namespace.0))?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = run(&format!("ip netns delete {}", self.0));
    }
}

/// A directory with the proxy's binary, accessible to other users.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let name = format!("linkerd-tests-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let this = Self(directory);
        if std::fs::hard_link(binary(), this.program()).is_err() {
            std::fs::copy(binary(), this.program()).unwrap();
        }
        this
    }

    fn program(&self) -> PathBuf {
        self.0.join("linkerd-proxy")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(line: &str) -> Result<(), String> {
    let words: Vec<_> = line.split(' ').collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// The variable set in a test that runs inside a namespace.
const INSIDE: &str = "LINKERD_TESTS_NETNS";

/// The admin server of a pod's proxy.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4191);

/// The user of the proxy in a pod, by which its own traffic is recognised.
const PROXY_UID: u32 = 2102;
