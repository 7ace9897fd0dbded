//! The minimal hyper forwarder: the floor of this stack.

use super::{FLOOR, Setup, Subject};
use crate::{error::Result, net::PROXY, process::Program, workload::Protocol};
use std::path::PathBuf;

/// A minimal forwarder on hyper.
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
        // Always one worker: it stays the floor.
        Ok(Some(program.arg(PROXY).args(&setup.endpoints)))
    }
}
