//! Listeners that come and go: of workers with a paused clock, and of a proxy that runs in this process.

mod in_process;
mod workers;

use crate::config::{Config, Env};
use std::net::{Ipv4Addr, SocketAddr};

/// The environment of an explicit proxy on free ports of loopback, without inbound traffic.
fn env(controller: SocketAddr) -> Env {
    let controller = controller.to_string();
    [
        ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", "127.0.0.1:0"),
        ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "127.0.0.1:0"),
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", &*controller),
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", &*controller),
        ("LINKERD2_PROXY_POLICY_WORKLOAD", "ns:pod"),
        ("LINKERD2_PROXY_DESTINATION_PROFILE_SUFFIXES", "."),
        ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "1"),
        ("LINKERD_PROXY_INBOUND_ENABLED", "0"),
    ]
    .into_iter()
    .collect()
}

fn config() -> Config {
    Config::load(&env(ANY_PORT)).expect("valid").config
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
