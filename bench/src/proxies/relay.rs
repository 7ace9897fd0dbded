//! The byte relay: the physical floor.

use super::{RELAY, Setup, Subject, forwarder::floor_pair};
use crate::{error::Result, net::PROXY, process::Program};
use std::path::PathBuf;

/// Copies bytes without reading them.
pub struct Relay(pub PathBuf);

impl Subject for Relay {
    fn name(&self) -> &str {
        RELAY
    }

    fn programs(&self, setup: &Setup<'_>) -> Result<Vec<Program>> {
        // Always one worker.
        if setup.workers > 1 {
            return Ok(Vec::new());
        }
        let relay = Program::new(&self.0);
        Ok(match setup.mesh {
            None => vec![relay.arg(PROXY).args(&setup.endpoints)],
            Some(mesh) => floor_pair(&relay, mesh, setup).into(),
        })
    }
}
