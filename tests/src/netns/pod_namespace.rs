//! The network namespace of a pod of a [`Cluster`](super::Cluster).

use super::{INSIDE, run};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    cell::RefCell,
    fs::File,
    net::Ipv4Addr,
    os::fd::AsFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A network namespace with a link to the bridge of the node. Clones share it; the last one removes it.
#[derive(Clone)]
pub struct PodNamespace(Arc<Handles>);

struct Handles {
    name: String,
    /// The node's end of the link.
    link: String,
    file: File,
}

impl PodNamespace {
    /// Creates the namespace, with an address in the node's network and the node as gateway.
    pub(super) fn new(number: u8, addr: Ipv4Addr, node: Ipv4Addr) -> Self {
        let name = format!("{}-{number}", std::env::var(INSIDE).unwrap());
        let link = format!("pod{number}");
        for line in [
            format!("ip netns add {name}"),
            format!("ip link add {link} type veth peer name eth0 netns {name}"),
            format!("ip link set {link} master {BRIDGE} up"),
            format!("ip -n {name} addr add {addr}/16 dev eth0"),
            format!("ip -n {name} link set eth0 up"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} route add default via {node}"),
        ] {
            run(&line).unwrap();
        }
        let file = open(&name);
        Self(Arc::new(Handles { name, link, file }))
    }

    /// Runs a future inside: sockets and processes that it creates are there. Tasks that it spawns are not.
    pub fn enter<F: Future>(&self, future: F) -> Inside<F> {
        Inside {
            namespace: self.clone(),
            future: Box::pin(future),
        }
    }

    /// Runs a command inside.
    pub(super) fn run(&self, line: &str) -> Result<(), String> {
        run(&format!("ip netns exec {} {line}", self.0.name))
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        // The namespace itself stays while one of its sockets is open, so the link is removed first.
        let _ = run(&format!("ip link del {}", self.link));
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}

/// A future that is polled inside of a namespace. The test has one thread.
pub struct Inside<F> {
    namespace: PodNamespace,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let outside = CURRENT.replace(Some(self.namespace.clone()));
        go_to(&self.namespace.0.file);
        let polled = self.future.as_mut().poll(cx);
        match &outside {
            Some(outside) => go_to(&outside.0.file),
            None => go_to(&open(&std::env::var(INSIDE).unwrap())),
        }
        CURRENT.set(outside);
        polled
    }
}

thread_local! {
    /// The present namespace of the thread, unless it is the namespace of the test.
    static CURRENT: RefCell<Option<PodNamespace>> = const { RefCell::new(None) };
}

fn open(name: &str) -> File {
    File::open(format!("/var/run/netns/{name}")).unwrap()
}

fn go_to(namespace: &File) {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).unwrap();
}

/// The bridge of the node.
pub(super) const BRIDGE: &str = "cluster0";
