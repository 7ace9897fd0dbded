//! The environment of the proxy: the quickstart's variables on top of the user's.

use super::options::ProxyAddresses;
use crate::config::Env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The environment of an explicit proxy on loopback with the quickstart's controller; all else is the user's.
pub(super) fn of_proxy(controller: SocketAddr, terminal: bool) -> Env {
    complete(Env::from_process(), controller, terminal)
}

/// Whether the terminal lacks escape sequences.
pub(super) fn has_dumb_terminal() -> bool {
    Env::from_process()
        .iter()
        .any(|(name, value)| name == "TERM" && value == "dumb")
}

/// The usual ports that were in use, and their replacements.
pub(super) fn moved(addresses: &ProxyAddresses) -> Vec<(u16, u16)> {
    moved_in(&Env::from_process(), addresses)
}

fn moved_in(env: &Env, addresses: &ProxyAddresses) -> Vec<(u16, u16)> {
    let ProxyAddresses {
        outbound,
        inbound,
        admin,
    } = addresses;
    PORTS
        .into_iter()
        .zip([outbound, inbound, admin])
        .filter(|((name, usual), taken)| !env.is_set(name) && taken.port() != *usual)
        .map(|((_, usual), taken)| (usual, taken.port()))
        .collect()
}

/// The variables of the proxy's ports, and the usual ports.
const PORTS: [(&str, u16); 3] = [
    ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", 4140),
    ("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", 4143),
    ("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", 4191),
];

fn complete(mut env: Env, controller: SocketAddr, terminal: bool) -> Env {
    let controller = controller.to_string();
    for (name, value) in [
        ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "0"),
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", &controller),
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", &controller),
    ] {
        env.set(name, value);
    }
    // Log lines would disturb the table.
    let log = if terminal { "off" } else { "warn" };
    let workload = r#"{"ns":"default","pod":"quickstart"}"#;
    let ports = PORTS.map(|(name, port)| (name, free(port)));
    let rest = [
        ("LINKERD2_PROXY_POLICY_WORKLOAD", workload.to_owned()),
        (
            "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY",
            "all-unauthenticated".to_owned(),
        ),
        ("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "1s".to_owned()),
        ("LINKERD2_PROXY_LOG", log.to_owned()),
    ];
    for (name, value) in ports.into_iter().chain(rest) {
        if !env.is_set(name) {
            env.set(name, value);
        }
    }
    env
}

/// The usual port if it is free, else any.
fn free(port: u16) -> String {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = TcpListener::bind(usual).map_or(0, |_| port);
    SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_environment_is_complete_and_without_warnings() {
        let env = complete(Env::default(), ([127, 0, 0, 1], 9).into(), true);
        let loaded = Config::load(&env).expect("valid");
        assert_eq!(loaded.warnings, [""; 0]);
        let outbound = &loaded.config.outbound;
        assert!(outbound.explicit && outbound.allow_loopback);
        assert!(outbound.listen[0].ip().is_loopback());
        assert!(loaded.config.log.is_off());
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let set = Env::from_iter([
            ("LINKERD2_PROXY_LOG", "debug"),
            ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:5140"),
        ]);
        let env = complete(set, ([127, 0, 0, 1], 9).into(), true);
        let config = Config::load(&env).expect("valid").config;
        assert_eq!(config.log.filter, "debug");
        assert_eq!(config.outbound.listen[0].port(), 5140);
    }

    #[test]
    fn ports_that_were_taken_instead_of_the_usual_ones_are_told() {
        let addresses = ProxyAddresses {
            outbound: ([127, 0, 0, 1], 4140).into(),
            inbound: ([127, 0, 0, 1], 5143).into(),
            admin: ([127, 0, 0, 1], 5191).into(),
        };
        let env = Env::from_iter([("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "127.0.0.1:5191")]);
        assert_eq!(moved_in(&env, &addresses), [(4143, 5143)]);
    }

    #[test]
    fn a_port_in_use_is_left_alone() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_eq!(free(port), "127.0.0.1:0");
    }
}
