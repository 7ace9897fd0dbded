//! A pod of a [`Cluster`](super::Cluster).

use super::PodNamespace;
use crate::{Proxy, soon};
use linkerd_control::Endpoint;
use std::{net::Ipv4Addr, net::SocketAddr, process::Stdio};
use tokio::process::{Child, Command};

/// A pod with its own address, and a proxy if it is meshed. Dropping it kills its processes and removes it.
pub struct ClusterPod {
    /// The address in the network of the cluster.
    pub addr: Ipv4Addr,
    /// The proxy, if the pod is meshed.
    pub(super) proxy: Option<Proxy>,
    /// The identity of the proxy.
    pub(super) identity: String,
    pub(super) namespace: PodNamespace,
}

impl ClusterPod {
    /// The proxy.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the pod is meshed")
    }

    /// The proxy, mutable, to wait for its end.
    pub fn proxy_mut(&mut self) -> &mut Proxy {
        self.proxy.as_mut().expect("the pod is meshed")
    }

    /// A port of the pod.
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.addr, port).into()
    }

    /// A port of the pod as an endpoint, with the identity of its proxy.
    pub fn endpoint(&self, port: u16) -> Endpoint {
        let endpoint = Endpoint::new(self.at(port));
        match self.proxy {
            Some(_) => endpoint.identity(self.identity.clone()).h2(),
            None => endpoint,
        }
    }

    /// Runs a future inside the pod: sockets and processes that it creates are there. Tasks that it spawns are not.
    pub fn enter<F: Future>(&self, future: F) -> super::Inside<F> {
        self.namespace.enter(future)
    }

    /// Starts an application, as the user `nobody` or `user`.
    pub async fn start(&self, user: &str, line: &str) -> Child {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={user}"))
            .args(["--clear-groups", "--"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        let starting = async move { command.spawn() };
        self.enter(starting).await.unwrap()
    }

    /// Runs a client to its end; returns its output, or the reason of its failure.
    pub async fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let running = async move { command.output().await.unwrap() };
        let output = soon(self.enter(running)).await;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match output.status.success() {
            true => Ok(said(&output.stdout)),
            false => Err(format!("{} {}", said(&output.stdout), said(&output.stderr))),
        }
    }

    /// Lets the node of the pod vanish: no packet arrives or leaves any more.
    pub fn vanish(&self) {
        self.lose("");
    }

    /// Drops packets in both directions by matches of iptables; all packets if there are none.
    pub fn lose(&self, matches: &str) {
        for chain in ["PREROUTING -i", "OUTPUT -o"] {
            let rule = format!("iptables -t raw -A {chain} eth0 {matches} -j DROP");
            let words: Vec<_> = rule.split_whitespace().collect();
            self.namespace.run(&words.join(" ")).unwrap();
        }
    }
}
