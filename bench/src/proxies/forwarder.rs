//! The minimal hyper forwarder: the floor of this stack.

use super::{FLOOR, Setup, Subject};
use crate::{
    error::Result,
    identities::{API, Identities, WEB},
    net::{PEER, PROXY},
    process::Program,
    workload::Protocol,
};
use std::path::PathBuf;

/// A minimal forwarder on hyper.
pub struct Forwarder(pub PathBuf);

impl Subject for Forwarder {
    fn name(&self) -> &str {
        FLOOR
    }

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        let program = Program::new(&self.0);
        // Always one worker, as it is the floor.
        Ok(match (setup.mesh, setup.protocol) {
            (_, Protocol::Opaque) => Vec::new(),
            (None, Protocol::Http1) => vec![program.arg(PROXY).args(&setup.endpoints)],
            (None, Protocol::Http2) => {
                let program = program.arg("--http2");
                vec![program.arg(PROXY).args(&setup.endpoints)]
            }
            (Some(mesh), Protocol::Http2) => {
                floor_pair(&program.arg("--http2"), mesh, setup).into()
            }
            // HTTP/2 between the two proxies.
            (Some(mesh), Protocol::Http1) => {
                let [of_backends, of_clients] = floor_pair(&program, mesh, setup);
                vec![
                    of_backends.arg_first("--http2-in"),
                    of_clients.arg_first("--http2-out"),
                ]
            }
        })
    }
}

/// Two processes of a floor program, with mutual TLS between them.
pub(super) fn floor_pair(program: &Program, mesh: &Identities, setup: &Setup<'_>) -> [Program; 2] {
    let directory = |name| mesh.directory(name).display().to_string();
    let of_backends = program.clone().arg("--tls-in").arg(directory(API));
    let of_clients = program.clone().arg("--tls-out").arg(directory(WEB));
    [
        of_backends.arg(PEER).arg(setup.backend()),
        of_clients.arg(API).arg(PROXY).args(setup.peers()),
    ]
}
