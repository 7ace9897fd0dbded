//! The bounds of TLS handshakes: clients whose first message is not whole, and handshakes from a whole first message on.

use linkerd_proxy_core::{
    Error, Reason,
    crowd::{Crowd, Place},
};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The handshakes of a worker that have begun and not ended.
///
/// - **Bounds**: 1,024 first messages that are not whole, and 1,024 handshakes. Beyond them those make room that are not the newest, and
///   they fail as `HandshakeLimit`.
#[derive(Debug)]
pub struct Handshakes {
    hellos: Crowd,
    handshakes: Crowd,
}

/// A client that has begun its first message or a handshake, until it is dropped.
pub struct Handshake<'a>(Place<&'a Crowd>);

impl Handshakes {
    /// A client of this address has begun its first message, and not ended it.
    pub fn begin_hello(&self, source: IpAddr) -> Handshake<'_> {
        Handshake(self.hellos.enter(source))
    }

    /// A client of this address has sent its whole first message.
    pub fn begin(&self, source: IpAddr) -> Handshake<'_> {
        Handshake(self.handshakes.enter(source))
    }

    /// The handshakes, for `/state`.
    pub fn inspect(&self) -> Value {
        let mut handshakes = self.handshakes.inspect();
        handshakes["hellos"] = self.hellos.inspect();
        json!(handshakes)
    }
}

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            hellos: Crowd::new(MAX_HELLOS),
            handshakes: Crowd::new(MAX_HANDSHAKES),
        }
    }
}

impl Handshake<'_> {
    /// Runs until the client has made room for others.
    pub async fn displaced(&self) -> Error {
        self.0.displaced().await;
        let detail = "others needed the place of this client, which had not finished";
        Error::new(Reason::HandshakeLimit).detail(detail)
    }
}

/// The most first messages of a worker that have begun and are not whole. Each may hold 16 KB.
const MAX_HELLOS: usize = 1024;
/// The most handshakes of a worker that have begun and not ended. Each holds some 20 KB.
const MAX_HANDSHAKES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn one_too_many_takes_the_place_of_the_oldest() {
        let handshakes = Handshakes::default();
        let source = IpAddr::from([10, 0, 0, 1]);
        let open: Vec<_> = (0..=MAX_HANDSHAKES)
            .map(|_| handshakes.begin(source))
            .collect();
        let failed = open[0]
            .displaced()
            .now_or_never()
            .map(|error| error.reason());
        assert_eq!(failed, Some(Reason::HandshakeLimit));
        assert!(open[1].displaced().now_or_never().is_none());
        assert_eq!(handshakes.inspect()["displaced"], 1);
        assert_eq!(handshakes.inspect()["hellos"]["open"], 0);
    }
}
