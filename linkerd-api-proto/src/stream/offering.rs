//! A body whose reader yields the core to other threads now and then: 10,000 endpoints with a dozen labels take some
//! ten milliseconds, during which requests would wait.

use bytes::Buf;

/// A body that is decoded in slices.
pub(super) struct Offering<B, F> {
    bytes: B,
    offer: F,
    /// Bytes left of this slice.
    left: usize,
}

impl<B, F> Offering<B, F> {
    pub(super) fn new(bytes: B, offer: F) -> Self {
        Self {
            bytes,
            offer,
            left: TURN,
        }
    }
}

impl<B: Buf, F: FnMut()> Buf for Offering<B, F> {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n: usize) {
        self.bytes.advance(n);
        match self.left.checked_sub(n) {
            Some(left) => self.left = left,
            None => {
                (self.offer)();
                self.left = TURN;
            }
        }
    }
}

/// Bytes between two yields: about 0.1 ms.
const TURN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::{AddrSet, Update, update};
    use crate::net::TcpAddress;
    use prost::Message;

    #[test]
    fn a_long_message_is_read_in_turns_and_a_short_one_in_one() {
        let update = |addrs: u16| {
            let addr = |n| TcpAddress::from(std::net::SocketAddr::from(([10, 0, 0, 1], n)));
            Update {
                update: Some(update::Update::Remove(AddrSet {
                    addrs: (1..=addrs).map(addr).collect(),
                })),
            }
        };
        for (addrs, turns) in [(3, 0), (10_000, 5)] {
            let sent = update(addrs);
            let bytes = sent.encode_to_vec();
            let mut offered = 0;
            let read = Update::decode(Offering::new(&*bytes, || offered += 1));
            assert_eq!(read.unwrap(), sent);
            assert!(
                offered >= turns && offered <= bytes.len() / TURN,
                "{offered}"
            );
        }
    }
}
