//! The byte relay: the physical floor.

use super::{RELAY, Setup, Subject};
use crate::{error::Result, net::PROXY, process::Program};
use std::path::PathBuf;

/// Copies bytes without reading them.
pub struct Relay(pub PathBuf);

impl Subject for Relay {
    fn name(&self) -> &str {
        RELAY
    }

    fn program(&self, setup: &Setup<'_>) -> Result<Option<Program>> {
        // Always one worker.
        let program = Program::new(&self.0).arg(PROXY).args(&setup.endpoints);
        Ok((setup.workers == 1).then_some(program))
    }
}
