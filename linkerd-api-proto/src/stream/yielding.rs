//! A buffer whose reader yields the core to other threads now and then: 10,000 endpoints with a dozen labels take some
//! ten milliseconds, during which requests would wait.

use bytes::Buf;

/// A buffer that is decoded in slices.
pub(super) struct YieldingBuf<B, F> {
    bytes: B,
    yield_now: F,
    /// Bytes left of this slice.
    left: usize,
}

impl<B, F> YieldingBuf<B, F> {
    pub(super) fn new(bytes: B, yield_now: F) -> Self {
        Self {
            bytes,
            yield_now,
            left: SLICE,
        }
    }
}

impl<B: Buf, F: FnMut()> Buf for YieldingBuf<B, F> {
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
                (self.yield_now)();
                self.left = SLICE;
            }
        }
    }
}

/// Bytes between two yields: about 0.1 ms.
const SLICE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::{AddrSet, Update, update};
    use crate::net::TcpAddress;
    use prost::Message;

    #[test]
    fn a_long_message_is_read_in_slices_and_a_short_one_in_one() {
        let update = |addrs: u16| {
            let addr = |n| TcpAddress::from(std::net::SocketAddr::from(([10, 0, 0, 1], n)));
            Update {
                update: Some(update::Update::Remove(AddrSet {
                    addrs: (1..=addrs).map(addr).collect(),
                })),
            }
        };
        for (addrs, at_least) in [(3, 0), (10_000, 5)] {
            let sent = update(addrs);
            let bytes = sent.encode_to_vec();
            let mut yields = 0;
            let read = Update::decode(YieldingBuf::new(&*bytes, || yields += 1));
            assert_eq!(read.unwrap(), sent);
            assert!(
                yields >= at_least && yields <= bytes.len() / SLICE,
                "{yields}"
            );
        }
    }
}
