//! Requests of which the head has not come whole.
//!
//! hyper holds 16 KiB of buffers for a connection, and a client that sends half of a head can hold them for as long as the
//! header timeout. So a head that does not come at once is gathered in a buffer of its own size, and hyper is put on the
//! socket when it is whole.

use super::server::ServeError;
use crate::{
    limits,
    transport::{Duplex, Io},
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::poll_fn,
    rc::Rc,
    time::Duration,
};
use tokio::{io::AsyncReadExt, sync::Notify, time::timeout};

/// The half-sent requests of one direction of a worker. Copies share them.
///
/// - **Bounds**: their number; when there is one more, the one that has waited longest is given up.
#[derive(Clone, Debug)]
pub struct HalfSent(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    /// By age; the oldest is first.
    waiting: RefCell<BTreeMap<u64, Rc<Notify>>>,
    next: Cell<u64>,
    given_up: Cell<u64>,
}

/// A half-sent request, as long as it is.
struct Waiting<'a> {
    all: &'a Shared,
    number: u64,
    given_up: Rc<Notify>,
}

impl Default for HalfSent {
    fn default() -> Self {
        Self::new(limits::HTTP1_HALF_SENT)
    }
}

impl HalfSent {
    /// At most `limit` of them.
    pub fn new(limit: usize) -> Self {
        Self(Rc::new(Shared {
            limit,
            waiting: RefCell::default(),
            next: Cell::new(0),
            given_up: Cell::new(0),
        }))
    }

    /// How many there are, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "waiting": self.0.waiting.borrow().len(),
            "limit": self.0.limit,
            "given_up": self.0.given_up.get(),
        })
    }

    /// Reads until the head of a request is whole, or too long to be gathered, and puts back what was read. Where the
    /// first bytes have the head, which is almost always so, nothing is read.
    pub(super) async fn gather<I: Duplex>(
        &self,
        io: &mut Io<I>,
        header_timeout: Duration,
    ) -> Result<(), ServeError> {
        if !io.inner().is_socket() || is_whole(io.prefix(), 0) {
            return Ok(());
        }
        // In a box: few connections need it, and all would have room for it.
        Box::pin(async {
            let waiting = self.0.enter();
            tokio::select! {
                biased;
                gathered = timeout(header_timeout, gather(io)) => {
                    gathered.map_err(|_| ServeError::HeaderTimeout(header_timeout))
                }
                () = waiting.given_up.notified() => Err(ServeError::HalfSentLimit(self.0.limit)),
            }
        })
        .await
    }
}

impl Shared {
    fn enter(&self) -> Waiting<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        let given_up = Rc::new(Notify::new());
        let mut waiting = self.waiting.borrow_mut();
        waiting.insert(number, given_up.clone());
        if waiting.len() > self.limit
            && let Some((_, oldest)) = waiting.pop_first()
        {
            oldest.notify_one();
            self.given_up.set(self.given_up.get() + 1);
        }
        Waiting {
            all: self,
            number,
            given_up,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.waiting.borrow_mut().remove(&self.number);
    }
}

/// Gathers a head. An end or an error of the connection is left to who reads on.
async fn gather<I: Duplex>(io: &mut Io<I>) {
    let mut head = io.take_prefix().to_vec();
    loop {
        // Nothing is held for a client that pauses but what it has sent.
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

/// Whether bytes have the end of a head, of which the first `seen` have none.
fn is_whole(bytes: &[u8], seen: usize) -> bool {
    let rest = &bytes[seen.saturating_sub(3)..];
    rest.windows(2).any(|two| two == b"\n\n") || rest.windows(3).any(|three| three == b"\n\r\n")
}

/// How much is read at a time, or half of what has come: a long head is not moved for each piece.
const PIECE: usize = 512;

/// A head that is longer is refused by hyper. One that were left to hyper earlier, and came back here when it pauses, would
/// have the header timeout anew each time.
const MAX_GATHERED: usize = limits::HTTP1_MAX_BUFFER;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_too_many_gives_the_oldest_up() {
        let half_sent = HalfSent::new(2);
        let mut waiting: Vec<_> = (0..3).map(|_| half_sent.0.enter()).collect();
        let mut given_up = tokio_test::task::spawn(waiting[0].given_up.notified());
        assert!(given_up.poll().is_ready());
        drop(given_up);
        let mut kept = tokio_test::task::spawn(waiting[1].given_up.notified());
        assert!(kept.poll().is_pending());
        drop(kept);
        let state = serde_json::json!({ "waiting": 2, "limit": 2, "given_up": 1 });
        assert_eq!(half_sent.inspect(), state);
        waiting.clear();
        assert_eq!(half_sent.inspect()["waiting"], 0);
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
