//! Requests whose head has not arrived completely.
//!
//! hyper holds 16 KiB of buffers for a connection, and a client that sends half of a head can hold them for as long as the
//! header timeout. So a head that does not arrive at once is gathered in a buffer of its size, and hyper is attached when
//! the head is complete.

use crate::{
    crowd::{Crowd, Place},
    limits,
    transport::{Duplex, Io},
};
use std::{
    fmt,
    future::poll_fn,
    net::{IpAddr, Ipv4Addr},
    rc::Rc,
    time::Duration,
};
use tokio::{io::AsyncReadExt, time::timeout};

/// The half-sent requests of one direction of a worker. Copies share them.
///
/// - **Bounds**: their number and their bytes; beyond a bound, the oldest are dropped of the source that holds the most.
#[derive(Clone, Debug)]
pub struct HalfSent {
    crowd: Rc<Crowd>,
    client: IpAddr,
}

/// The most half-sent requests of one direction of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfSentBound {
    /// The number of half-sent requests.
    pub count: usize,
    /// The bytes received, of all half-sent requests together.
    pub bytes: usize,
}

impl fmt::Display for HalfSentBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes in all", self.count, self.bytes)
    }
}

/// The error of a request whose head did not arrive completely.
#[derive(Clone, Copy, Debug)]
pub(super) enum HalfSentError {
    /// The head took longer than this timeout.
    Timeout(Duration),
    /// Later requests needed its room.
    Limit(HalfSentBound),
}

impl Default for HalfSent {
    fn default() -> Self {
        Self::new(HalfSentBound {
            count: limits::HTTP1_HALF_SENT,
            bytes: limits::HTTP1_HALF_SENT_BYTES,
        })
    }
}

impl HalfSent {
    /// No requests yet, and at most as many as `bound` allows. Its clients are one source.
    pub fn new(bound: HalfSentBound) -> Self {
        Self {
            crowd: Rc::new(Crowd::with_bytes(bound.count, bound.bytes)),
            client: Ipv4Addr::UNSPECIFIED.into(),
        }
    }

    /// The same requests and bounds, for those of a client.
    #[must_use]
    pub fn of(&self, client: IpAddr) -> Self {
        Self {
            crowd: self.crowd.clone(),
            client,
        }
    }

    /// The number and bytes of half-sent requests, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "waiting": self.crowd.count(),
            "limit": self.crowd.limit(),
            "bytes": self.crowd.bytes(),
            "max_bytes": self.crowd.max_bytes(),
            "given_up": self.crowd.displaced(),
        })
    }

    /// Reads until the head of a request is complete, or too long to be gathered, and puts back the bytes. Reads nothing if the
    /// first bytes contain the whole head, as they almost always do.
    pub(super) async fn gather<I: Duplex>(
        &self,
        io: &mut Io<I>,
        header_timeout: Duration,
    ) -> Result<(), HalfSentError> {
        if !io.inner().awaits_bytes() || is_whole(io.prefix(), 0) {
            return Ok(());
        }
        // In a box: few connections need it, and all would have to reserve its space.
        Box::pin(async {
            let waiting = self.crowd.enter(self.client);
            tokio::select! {
                biased;
                () = waiting.displaced() => Err(HalfSentError::Limit(self.bound())),
                gathered = timeout(header_timeout, gather(io, &waiting)) => {
                    gathered.map_err(|_| HalfSentError::Timeout(header_timeout))
                }
            }
        })
        .await
    }

    fn bound(&self) -> HalfSentBound {
        HalfSentBound {
            count: self.crowd.limit(),
            bytes: self.crowd.max_bytes(),
        }
    }
}

/// Gathers a head. An end or an error of the connection is left to the next reader.
async fn gather<I: Duplex>(io: &mut Io<I>, waiting: &Place<&Crowd>) {
    let mut head = io.take_prefix().to_vec();
    loop {
        waiting.holds(head.len());
        // For a client that pauses, nothing is held but the bytes that it has sent.
        poll_fn(|cx| io.poll_readable(cx)).await;
        let seen = head.len();
        let piece = PIECE.max(seen / 2);
        head.reserve_exact(piece);
        let read = (&mut *io).take(piece as u64).read_buf(&mut head).await;
        head.shrink_to_fit();
        let has_ended = !matches!(read, Ok(1..));
        if has_ended || is_whole(&head, seen) || head.len() >= MAX_GATHERED {
            return io.put_back(head.into());
        }
    }
}

/// Whether the bytes contain the end of a head; the first `seen` bytes are known not to.
fn is_whole(bytes: &[u8], seen: usize) -> bool {
    let rest = &bytes[seen.saturating_sub(3)..];
    rest.windows(2).any(|two| two == b"\n\n") || rest.windows(3).any(|three| three == b"\n\r\n")
}

/// The bytes read at a time, or half of the gathered bytes if that is more: a long head is not moved for each piece.
const PIECE: usize = 512;

/// The longest head that is gathered; hyper refuses longer ones. If hyper got a head earlier and returned it at a pause, the
/// header timeout would begin anew each time.
const MAX_GATHERED: usize = limits::HTTP1_MAX_BUFFER;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_state_has_what_is_waiting_and_its_bounds() {
        let half_sent = HalfSent::new(HalfSentBound {
            count: 2,
            bytes: 100,
        });
        let of_one = half_sent.of([10, 0, 0, 1].into());
        let waiting: Vec<_> = (0..3).map(|_| of_one.crowd.enter(of_one.client)).collect();
        waiting[1].holds(60);
        waiting[2].holds(40);
        let state = serde_json::json!({
            "waiting": 2, "limit": 2, "bytes": 100, "max_bytes": 100, "given_up": 1,
        });
        assert_eq!(half_sent.inspect(), state);
    }

    proptest! {
        #[test]
        fn the_end_is_found_however_the_head_is_cut(
            head in "[a\r\n]{0,12}",
            cut in 0usize..12,
        ) {
            let bytes = head.as_bytes();
            let cut = cut.min(bytes.len());
            let in_pieces = is_whole(&bytes[..cut], 0) || is_whole(bytes, cut);
            prop_assert_eq!(in_pieces, is_whole(bytes, 0));
        }
    }
}
