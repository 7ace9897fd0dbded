//! A network namespace in which interception costs each proxy the same.
//!
//! The command runs itself again inside it, with backends, load, control plane and proxies. All addresses of 10.9.0.0/16 are
//! local; traffic to [`SERVICE`] is redirected to [`PROXY`], unless a proxy sends it.

use crate::{
    error::{Context, Error, Result},
    process::{require, run},
};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Stdio,
};

/// The address of the service, without a listener.
pub const SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 100));

/// The address of the proxy.
pub const PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4140);

/// The address of the second proxy of a meshed workload, in front of the backends.
pub const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4143);

/// The address of a sidecar's admin server.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4191);

/// The user of the proxy, by which its own connections are recognised.
pub const PROXY_USER: u32 = 2102;

/// The address of one of many services: the first is [`SERVICE`].
pub fn service(number: usize) -> IpAddr {
    let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
    match number {
        0 => SERVICE,
        _ => IpAddr::V4(Ipv4Addr::new(10, 9, 200 + high, low)),
    }
}

/// The address of one of many clients.
pub fn client(number: usize) -> IpAddr {
    let low = u8::try_from(number % 250).unwrap_or_default();
    IpAddr::V4(Ipv4Addr::new(10, 9, 220, 1 + low))
}

/// The address of a backend: most workloads have only the first three.
pub fn backend(number: usize) -> IpAddr {
    let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
    match (high, low) {
        (0, 0..3) => IpAddr::V4(Ipv4Addr::new(10, 9, 0, 11 + low)),
        _ => IpAddr::V4(Ipv4Addr::new(10, 9, 1 + high, low)),
    }
}

/// The shared directory of this run, if this process is inside the namespace.
pub fn inside() -> Option<PathBuf> {
    std::env::var_os(INSIDE).map(PathBuf::from)
}

/// Runs this command again in a new namespace, on the cores of the load, and returns its exit code.
pub async fn run_inside(load_cores: &str) -> Result<u8> {
    let namespace = Namespace::new()?;
    let scratch = tempfile::tempdir().context("a temporary directory")?;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o1777))
        .context("a temporary directory")?;
    let program = std::env::current_exe().context("the path of this program")?;
    let mut child = tokio::process::Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        // Processes inherit the highest limit of open files.
        .args(["sh", "-c", "ulimit -n $(ulimit -Hn); exec \"$@\"", "sh"])
        .args(["taskset", "-c", load_cores])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, scratch.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("ip netns exec")?;
    let told = |kind| tokio::signal::unix::signal(kind).context("signals");
    let mut interrupt = told(tokio::signal::unix::SignalKind::interrupt())?;
    let mut terminate = told(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        ended = child.wait() => {
            let code = ended.context("ip netns exec")?.code();
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        _ = interrupt.recv() => Ok(130),
        _ = terminate.recv() => Ok(143),
    }
}

/// Prepares the namespace from the inside.
pub fn prepare() -> Result<()> {
    let rule = format!("-p tcp -d {SERVICE},{SERVICES} -m owner ! --uid-owner {PROXY_USER}");
    let to = PROXY.port();
    run(&format!(
        "iptables -t nat -A OUTPUT {rule} -j REDIRECT --to-ports {to}"
    ))?;
    for (name, value) in [
        // A new connection per request takes many ports, each of which stays reserved for a while.
        ("ipv4/ip_local_port_range", "20000 65535"),
        ("netfilter/nf_conntrack_tcp_timeout_time_wait", "1"),
    ] {
        // Without the permission, only the longest churn is affected.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
    Ok(())
}

/// A namespace. Dropping it ends its processes and removes it.
struct Namespace(String);

impl Namespace {
    fn new() -> Result<Self> {
        require("ip", "iproute2")?;
        require("iptables", "iptables")?;
        require("taskset", "util-linux")?;
        let name = format!("ldbench-{}", std::process::id());
        run(&format!("ip netns add {name}")).map_err(|error| {
            Error::Other(format!(
                "the comparison redirects traffic in a network namespace, and that needs root: {error}"
            ))
        })?;
        let namespace = Self(name);
        run(&format!("ip -n {} link set lo up", namespace.0))?;
        run(&format!(
            "ip -n {} route add local 10.9.0.0/16 dev lo",
            namespace.0
        ))?;
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // All processes in it were started by this command.
        let pids = run(&format!("ip netns pids {}", self.0)).unwrap_or_default();
        for pid in pids.split_ascii_whitespace() {
            let _ = run(&format!("kill -KILL {pid}"));
        }
        if let Err(error) = run(&format!("ip netns delete {}", self.0)) {
            eprintln!("the namespace stays: {error}");
        }
    }
}

/// The addresses of all services but the first one.
const SERVICES: &str = "10.9.200.0/22";

/// The variable set inside a namespace, to the shared directory.
const INSIDE: &str = "LINKERD_BENCH_INSIDE";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn services_are_among_those_that_are_redirected() {
        assert_eq!(service(0), SERVICE);
        assert_eq!(service(1).to_string(), "10.9.200.1");
        assert_eq!(service(999).to_string(), "10.9.203.231");
    }

    #[test]
    fn no_two_backends_share_an_address_and_none_is_the_service() {
        let all: HashSet<_> = (0..10_000).map(backend).collect();
        assert_eq!(all.len(), 10_000);
        assert!(!all.contains(&SERVICE));
        assert_eq!(backend(2).to_string(), "10.9.0.13");
        assert_eq!(backend(999).to_string(), "10.9.4.231");
    }
}
