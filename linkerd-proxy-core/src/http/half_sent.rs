//! Requests whose head has not arrived completely.
//!
//! hyper holds 16 KiB of buffers for a connection, and a client that sends half of a head can hold them for as long as the
//! header timeout. So a head that does not arrive at once is gathered in a buffer of its size, and hyper is attached when
//! the head is complete.

use crate::{
    limits,
    transport::{Duplex, Io},
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    rc::Rc,
    time::Duration,
};
use tokio::{io::AsyncReadExt, sync::Notify, time::timeout};

/// The half-sent requests of one direction of a worker. Copies share them.
///
/// - **Bounds**: their number and their bytes; beyond a bound, the oldest are dropped.
#[derive(Clone, Debug)]
pub struct HalfSent(Rc<HalfSentState>);

#[derive(Debug)]
struct HalfSentState {
    bound: HalfSentBound,
    /// By age; the oldest first.
    waiting: RefCell<BTreeMap<u64, Rc<Waiter>>>,
    bytes: Cell<usize>,
    next: Cell<u64>,
    given_up: Cell<u64>,
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

#[derive(Debug, Default)]
struct Waiter {
    bytes: Cell<usize>,
    given_up: Notify,
}

/// A half-sent request; removed when dropped.
struct Waiting<'a> {
    all: &'a HalfSentState,
    number: u64,
    waiter: Rc<Waiter>,
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
    /// No requests yet, and at most as many as `bound` allows.
    pub fn new(bound: HalfSentBound) -> Self {
        Self(Rc::new(HalfSentState {
            bound,
            waiting: RefCell::default(),
            bytes: Cell::new(0),
            next: Cell::new(0),
            given_up: Cell::new(0),
        }))
    }

    /// The number and bytes of half-sent requests, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "waiting": self.0.waiting.borrow().len(),
            "limit": self.0.bound.count,
            "bytes": self.0.bytes.get(),
            "max_bytes": self.0.bound.bytes,
            "given_up": self.0.given_up.get(),
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
            let waiting = self.0.enter();
            tokio::select! {
                biased;
                () = waiting.waiter.given_up.notified() => Err(HalfSentError::Limit(self.0.bound)),
                gathered = timeout(header_timeout, gather(io, &waiting)) => {
                    gathered.map_err(|_| HalfSentError::Timeout(header_timeout))
                }
            }
        })
        .await
    }
}

impl HalfSentState {
    fn enter(&self) -> Waiting<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        let waiter = Rc::<Waiter>::default();
        self.waiting.borrow_mut().insert(number, waiter.clone());
        self.make_room();
        Waiting {
            all: self,
            number,
            waiter,
        }
    }

    /// Drops the oldest until the others are within the bound.
    fn make_room(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while waiting.len() > self.bound.count || self.bytes.get() > self.bound.bytes {
            let Some((_, oldest)) = waiting.pop_first() else {
                return;
            };
            self.bytes.set(self.bytes.get() - oldest.bytes.take());
            oldest.given_up.notify_one();
            self.given_up.set(self.given_up.get() + 1);
        }
    }
}

impl Waiting<'_> {
    /// Notes the number of bytes that were received of the request.
    fn holds(&self, bytes: usize) {
        let before = self.waiter.bytes.replace(bytes);
        self.all.bytes.set(self.all.bytes.get() - before + bytes);
        self.all.make_room();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.waiting.borrow_mut().remove(&self.number);
        let bytes = self.waiter.bytes.get();
        self.all.bytes.set(self.all.bytes.get() - bytes);
    }
}

/// Gathers a head. An end or an error of the connection is left to the next reader.
async fn gather<I: Duplex>(io: &mut Io<I>, waiting: &Waiting<'_>) {
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
    fn one_too_many_gives_the_oldest_up() {
        let half_sent = HalfSent::new(HalfSentBound {
            count: 2,
            bytes: 100,
        });
        let mut waiting: Vec<_> = (0..3).map(|_| half_sent.0.enter()).collect();
        assert_eq!(given_up(&waiting), [true, false, false]);
        waiting.remove(0);
        waiting[0].holds(60);
        waiting[1].holds(40);
        let state = serde_json::json!({
            "waiting": 2, "limit": 2, "bytes": 100, "max_bytes": 100, "given_up": 1,
        });
        assert_eq!(half_sent.inspect(), state);
        waiting.clear();
        assert_eq!(half_sent.inspect()["waiting"], 0);
        assert_eq!(half_sent.inspect()["bytes"], 0);
    }

    #[test]
    fn too_many_bytes_give_the_oldest_up() {
        let half_sent = HalfSent::new(HalfSentBound {
            count: 10,
            bytes: 100,
        });
        let waiting: Vec<_> = (0..3).map(|_| half_sent.0.enter()).collect();
        waiting[1].holds(60);
        waiting[2].holds(60);
        assert_eq!(given_up(&waiting), [true, true, false]);
        waiting[2].holds(101);
        assert_eq!(given_up(&waiting), [false, false, true]);
    }

    /// The requests that were dropped since the last call.
    fn given_up(waiting: &[Waiting<'_>]) -> Vec<bool> {
        let given_up = |waiting: &Waiting<'_>| {
            let notified = waiting.waiter.given_up.notified();
            tokio_test::task::spawn(notified).poll().is_ready()
        };
        waiting.iter().map(given_up).collect()
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
