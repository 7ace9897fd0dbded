//! The minimal hyper forwarder: the floor of this stack.

use super::{FLOOR, Setup, Subject};
use crate::{error::Result, net::PROXY, process::Program, workload::Protocol};
use std::path::PathBuf;

/// The least that a forwarder on hyper can do.
pub struct Forwarder(pub PathBuf);

impl Subject for Forwarder {
    fn name(&self) -> &str {
        FLOOR
    }

    fn program(&self, setup: &Setup<'_>) -> Result<Option<Program>> {
        let program = Program::new(&self.0);
        let program = match setup.protocol {
            Protocol::Http1 => program,
            Protocol::Http2 => program.arg("--http2"),
            Protocol::Opaque => return Ok(None),
        };
        // It has one worker, whatever is asked for: it stays the floor.
        Ok(Some(program.arg(PROXY).args(&setup.endpoints)))
    }
}
