//! No proxy: the cost of the load and the backends alone.

use super::{DIRECT, Setup, Subject};
use crate::{error::Result, process::Program};

/// No proxy: the load goes to the backend.
pub struct Direct;

impl Subject for Direct {
    fn name(&self) -> &str {
        DIRECT
    }

    fn programs(&self, _: &Setup<'_>) -> Result<Vec<Program>> {
        Ok(Vec::new())
    }
}
