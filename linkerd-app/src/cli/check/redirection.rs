//! Redirection of the pod's traffic, as `init --check` proves it.

use super::report::CheckLine;
use crate::config::{Config, variables};
use linkerd_init::{CheckError, NetworkCheck};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

/// Connects to an address that leads nowhere, in a pod. Elsewhere, and beside a running proxy, it is skipped. It takes
/// twice [`TIMEOUT`] at most, and blocks.
pub(super) fn check(config: &Config, is_in_pod: bool, is_proxy_there: bool) -> CheckLine {
    if config.outbound.explicit {
        let why = format!(
            "{} is set: requests name their targets",
            variables::OUTBOUND_EXPLICIT.name()
        );
        return CheckLine::skipped(NAME, why);
    }
    let Some(listen) = config.outbound.listen.first().filter(|_| is_in_pod) else {
        return CheckLine::skipped(
            NAME,
            format!("this is no pod; to test it anyway: {COMMAND}"),
        );
    };
    if is_proxy_there {
        let why = format!("a proxy has the port already; before it starts: {COMMAND}");
        return CheckLine::skipped(NAME, why);
    }
    let check = NetworkCheck {
        listen: *listen,
        connect: NOWHERE,
        timeout: TIMEOUT,
    };
    let user = rustix::process::geteuid().as_raw();
    match linkerd_init::check(&check) {
        Ok(()) => CheckLine::ok(
            NAME,
            format!("outbound: {NOWHERE} leads to the proxy's port"),
        ),
        Err(error @ CheckError::Listen { .. }) => CheckLine::skipped(NAME, error.to_string()),
        // The rules leave the proxy's own connections alone.
        Err(_) if user == PROXY_USER => {
            let why = format!(
                "connections of user {user}, the proxy's, are not redirected; as another user: {COMMAND}"
            );
            CheckLine::skipped(NAME, why)
        }
        Err(error) => CheckLine::failed(NAME, error.to_string()).fix(
            "run linkerd-proxy init in this pod's network namespace as root, or check the CNI plugin",
        ),
    }
}

const NAME: &str = "redirection";
const COMMAND: &str = "linkerd-proxy init --check";

/// The address of `init --check`, where no server answers.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)), 20001);

/// A redirected connection stays on this host.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The user of the proxy by the rules of `init`.
const PROXY_USER: u32 = 2102;
