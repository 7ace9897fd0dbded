//! The environments of the sidecars: the quickstart's variables on top of the user's.

use super::{authority::MeshIdentity, options::ProxyAddresses};
use crate::config::{Env, PrintedRequests};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The control plane of the sidecars, and the ports that the mesh file names.
#[derive(Clone, Debug)]
pub(super) struct ControlPlane {
    /// The address of the controller.
    pub(super) addr: SocketAddr,
    /// The authority's certificate and the token, with which sidecars get their certificates.
    pub(super) identity: MeshIdentity,
    /// The port of the backends' sidecar.
    pub(super) sidecar: Option<u16>,
    /// The ports of the backends.
    pub(super) backends: Vec<u16>,
}

/// The environment of each sidecar.
pub(super) struct SidecarEnvs {
    pub(super) frontend: Env,
    pub(super) web: Env,
    pub(super) guest: Env,
}

/// The environments of explicit proxies on loopback with the quickstart's controller; all else is the user's.
pub(super) fn of_sidecars(
    control: &ControlPlane,
    printed: PrintedRequests,
    terminal: bool,
) -> SidecarEnvs {
    let mut user = Env::from_process();
    printed.set(&mut user);
    complete(&user, control, terminal)
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
    let taken = [Some(outbound), inbound.as_ref(), Some(admin)];
    let ports = PORTS.into_iter().zip(taken);
    ports
        .filter_map(|((name, usual), taken)| Some((name, usual, taken?.port())))
        .filter(|(name, usual, taken)| !env.is_set(name) && taken != usual)
        .map(|(_, usual, taken)| (usual, taken))
        .collect()
}

/// The variables of the ports of the frontend's sidecar, and the usual ports.
const PORTS: [(&str, u16); 3] = [(OUTBOUND, 4140), (INBOUND, 4143), (ADMIN, 4191)];

const OUTBOUND: &str = "LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR";
const INBOUND: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";
const ADMIN: &str = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR";

/// The usual port for the guest's requests, and those of the admin servers of the guest and of the backends.
const GUEST_PORT: u16 = 4141;
const GUEST_ADMIN_PORT: u16 = 4192;
const WEB_ADMIN_PORT: u16 = 4193;

/// The identity of the client whose requests are shown, as the mesh file names it.
pub(super) const FRONTEND: &str = "frontend.mesh.local";

/// The identity of the backends' sidecar, as the mesh file names it.
pub(super) const WEB: &str = "web.mesh.local";

/// The identity of the caller that the mesh file does not let in.
pub(super) const GUEST: &str = "guest.mesh.local";

fn complete(user: &Env, control: &ControlPlane, terminal: bool) -> SidecarEnvs {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
    let mut frontend = sidecar(user, control, terminal, FRONTEND);
    for (name, port) in PORTS {
        if !frontend.is_set(name) {
            frontend.set(name, free(port));
        }
    }
    let mut web = sidecar(user, control, terminal, WEB);
    let inbound = SocketAddr::from((Ipv4Addr::LOCALHOST, control.sidecar.unwrap_or(0)));
    let backends: Vec<_> = control.backends.iter().map(u16::to_string).collect();
    for (name, value) in [
        (OUTBOUND, &*any),
        (INBOUND, &inbound.to_string()),
        (ADMIN, &free(WEB_ADMIN_PORT)),
        ("LINKERD2_PROXY_INBOUND_PORTS", &backends.join(",")),
        ("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "all-authenticated"),
        // All callers are on loopback, and they are no pod.
        ("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0"),
    ] {
        web.set(name, value);
    }
    let mut guest = sidecar(user, control, terminal, GUEST);
    for (name, value) in [
        (OUTBOUND, &*free(GUEST_PORT)),
        (ADMIN, &free(GUEST_ADMIN_PORT)),
        ("LINKERD_PROXY_INBOUND_ENABLED", "0"),
    ] {
        guest.set(name, value);
    }
    SidecarEnvs {
        frontend,
        web,
        guest,
    }
}

/// The variables that all sidecars share, and the identity of one.
fn sidecar(user: &Env, control: &ControlPlane, terminal: bool, identity: &str) -> Env {
    let mut env = user.clone();
    let controller = control.addr.to_string();
    let MeshIdentity {
        trust_anchors,
        token,
        directory,
    } = &control.identity;
    for (name, value) in [
        ("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "1"),
        ("LINKERD_PROXY_OUTBOUND_ALLOW_UNKNOWN", "0"),
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", &*controller),
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", &controller),
        ("LINKERD2_PROXY_IDENTITY_SVC_ADDR", &controller),
        ("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", identity),
        ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", trust_anchors),
        ("LINKERD2_PROXY_IDENTITY_DIR", directory),
        ("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", token),
    ] {
        env.set(name, value);
    }
    // Log lines would disturb the table.
    let log = if terminal { "off" } else { "warn" };
    for (name, value) in [
        (
            "LINKERD2_PROXY_POLICY_WORKLOAD",
            r#"{"ns":"default","pod":"quickstart"}"#,
        ),
        (
            "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY",
            "all-unauthenticated",
        ),
        ("LINKERD2_PROXY_SHUTDOWN_GRACE_PERIOD", "1s"),
        ("LINKERD2_PROXY_LOG", log),
    ] {
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

    fn control_plane() -> ControlPlane {
        ControlPlane {
            addr: ([127, 0, 0, 1], 9).into(),
            identity: MeshIdentity {
                trust_anchors: "a certificate".to_owned(),
                token: "token".to_owned(),
                directory: "keys".to_owned(),
            },
            sidecar: Some(7010),
            backends: vec![7001, 7002],
        }
    }

    #[test]
    fn the_environments_are_complete_and_without_warnings() {
        let envs = complete(&Env::default(), &control_plane(), true);
        let config = |env: &Env| {
            let loaded = Config::load(env).expect("valid");
            assert_eq!(loaded.warnings, [""; 0]);
            let outbound = &loaded.config.outbound;
            assert!(outbound.explicit && outbound.allow_loopback);
            assert!(outbound.listen[0].ip().is_loopback());
            assert!(loaded.config.log.is_off());
            assert!(loaded.config.control.destination.is_loopback);
            loaded.config
        };
        let (frontend, web, guest) = (
            config(&envs.frontend),
            config(&envs.web),
            config(&envs.guest),
        );
        let names = [&frontend, &web, &guest].map(|config| {
            let identity = config.identity.as_ref().expect("an identity");
            identity.local.server_name.to_string()
        });
        assert_eq!(names, [FRONTEND, WEB, GUEST]);
        assert_eq!(web.inbound.listen.map(|addr| addr.port()), Some(7010));
        assert_eq!(web.inbound.ports, [7001, 7002].into());
        assert!(!web.inbound.admit_loopback && guest.inbound.listen.is_none());
    }

    #[test]
    fn what_the_user_has_set_stays() {
        let set = Env::from_iter([
            ("LINKERD2_PROXY_LOG", "debug"),
            ("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDR", "127.0.0.1:5140"),
        ]);
        let envs = complete(&set, &control_plane(), true);
        let config = Config::load(&envs.frontend).expect("valid").config;
        assert_eq!(config.log.filter, "debug");
        assert_eq!(config.outbound.listen[0].port(), 5140);
        let guest = Config::load(&envs.guest).expect("valid").config;
        assert_ne!(guest.outbound.listen[0].port(), 5140);
    }

    #[test]
    fn ports_that_were_taken_instead_of_the_usual_ones_are_told() {
        let addresses = ProxyAddresses {
            outbound: ([127, 0, 0, 1], 4140).into(),
            inbound: Some(([127, 0, 0, 1], 5143).into()),
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
