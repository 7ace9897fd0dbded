//! The bound of TLS handshakes.

use linkerd_proxy_core::{Error, Reason};
use serde_json::{Value, json};
use std::cell::Cell;

/// The handshakes of a worker that have begun and not ended.
#[derive(Debug, Default)]
pub struct Handshakes {
    open: Cell<usize>,
    refused: Cell<u64>,
}

/// A handshake, until it is dropped.
pub struct Handshake<'a>(&'a Handshakes);

impl Handshakes {
    /// Begins a handshake. Fails as `HandshakeLimit`.
    pub fn begin(&self) -> Result<Handshake<'_>, Error> {
        if self.open.get() >= MAX_HANDSHAKES {
            self.refused.set(self.refused.get() + 1);
            let detail = format!("{MAX_HANDSHAKES} handshakes have begun and not ended");
            return Err(Error::new(Reason::HandshakeLimit).detail(detail));
        }
        self.open.set(self.open.get() + 1);
        Ok(Handshake(self))
    }

    /// The handshakes, for `/state`.
    pub fn inspect(&self) -> Value {
        json!({
            "open": self.open.get(),
            "limit": MAX_HANDSHAKES,
            "refused": self.refused.get(),
        })
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

/// The most handshakes of a worker that have begun and not ended. Each holds some 20 KB.
const MAX_HANDSHAKES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_refused_until_another_has_ended() {
        let handshakes = Handshakes::default();
        let mut open: Vec<_> = (0..MAX_HANDSHAKES)
            .map(|_| handshakes.begin().unwrap())
            .collect();
        let refused = handshakes.begin().err().map(|error| error.reason());
        assert_eq!(refused, Some(Reason::HandshakeLimit));
        assert_eq!(handshakes.inspect()["refused"], 1);
        open.pop();
        assert!(handshakes.begin().is_ok());
    }
}
