//! A body that can be sent again, within a bound.

use super::{BodyError, received::Received};
use crate::{Error, Reason};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

/// One reading of a body that can be read several times.
///
/// Data is copied as the first reading takes it from the client; another reading yields the copy first and then goes on with
/// the client's data. When more than the limit has passed, or no other reading is left, the copy is dropped: the reading in
/// progress goes on, and a reading that lags behind fails.
///
/// Copies bound the memory by the bytes that have passed: otherwise a frame of one byte would hold its whole read buffer,
/// forty times the limit in a body of such frames.
pub(super) struct Replay<B = Received> {
    shared: Rc<RefCell<Shared<B>>>,
    /// The number of bytes yielded.
    next: usize,
    trailers_sent: bool,
}

struct Shared<B> {
    body: B,
    kept: Kept,
    /// The number of bytes that have passed.
    passed: usize,
    trailers_passed: bool,
    ended: bool,
    /// The client's body broke off: no reading reaches its end.
    broken: bool,
    size: SizeHint,
}

/// A copy of the frames of a body that have passed, within a limit.
struct Kept {
    data: Vec<u8>,
    trailers: Option<HeaderMap>,
    limit: usize,
    /// No frame that has passed is missing.
    is_whole: bool,
}

impl<B: Body<Data = Bytes> + Unpin> Replay<B> {
    pub(super) fn new(body: B, limit: usize) -> Self {
        let shared = Shared {
            size: body.size_hint(),
            body,
            kept: Kept::new(limit),
            passed: 0,
            trailers_passed: false,
            ended: false,
            broken: false,
        };
        Self {
            shared: Rc::new(RefCell::new(shared)),
            next: 0,
            trailers_sent: false,
        }
    }

    /// Another reading, from the start.
    pub(super) fn copy(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            next: 0,
            trailers_sent: false,
        }
    }

    /// Whether the client's body has ended, or no other reading is left.
    pub(super) fn is_released(&self) -> bool {
        let shared = self.shared.borrow();
        shared.ended || shared.body.is_end_stream() || Rc::strong_count(&self.shared) == 1
    }

    /// Whether everything that has passed is still kept.
    pub(super) fn is_whole(&self) -> bool {
        self.shared.borrow().kept.is_whole
    }
}

impl<B> Body for Replay<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let mut shared = this.shared.borrow_mut();
        if let Some(kept) = shared.kept.data.get(this.next..)
            && !kept.is_empty()
        {
            this.next += kept.len();
            return Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(kept)))));
        }
        if this.next < shared.passed || shared.broken {
            return Poll::Ready(Some(Err(not_kept())));
        }
        if !shared.ended {
            match ready!(Pin::new(&mut shared.body).poll_frame(cx)) {
                None => shared.ended = true,
                Some(Err(error)) => {
                    shared.kept.give_up();
                    shared.broken = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        // The copy is only read while it is complete: a reading that is ahead of it stays ahead.
                        if Rc::strong_count(&this.shared) > 1 {
                            shared.kept.keep(&data);
                        } else {
                            shared.kept.give_up();
                        }
                        this.next += data.len();
                        shared.passed += data.len();
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(other) => {
                        if let Ok(trailers) = other.into_trailers() {
                            shared.kept.keep_trailers(&trailers);
                            this.trailers_sent = true;
                            (shared.trailers_passed, shared.ended) = (true, true);
                            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                        }
                        shared.ended = true;
                    }
                },
            }
        }
        if !shared.trailers_passed || this.trailers_sent {
            return Poll::Ready(None);
        }
        this.trailers_sent = true;
        let trailers = shared.kept.trailers.clone().ok_or_else(not_kept);
        Poll::Ready(Some(trailers.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.shared.borrow();
        let ended = shared.ended || shared.body.is_end_stream();
        ended
            && !shared.broken
            && self.next >= shared.passed
            && (!shared.trailers_passed || self.trailers_sent)
    }

    fn size_hint(&self) -> SizeHint {
        match self.next {
            0 => self.shared.borrow().size,
            _ => SizeHint::default(),
        }
    }
}

impl Kept {
    fn new(limit: usize) -> Self {
        Self {
            data: Vec::new(),
            trailers: None,
            limit,
            is_whole: true,
        }
    }

    /// Copies a frame, if there is room for it.
    fn keep(&mut self, data: &[u8]) {
        if !self.is_whole {
            return;
        }
        let room = self.limit - self.data.len();
        if data.len() > room {
            return self.give_up();
        }
        let spare = self.data.capacity() - self.data.len();
        if data.len() > spare {
            // Grows like a vector, but never beyond the limit.
            let more = data.len().max(self.data.len()).min(room);
            self.data.reserve_exact(more);
        }
        self.data.extend_from_slice(data);
    }

    /// Copies trailers, if there is room for them beside the data. Their text is copied, as it lies in a read buffer.
    fn keep_trailers(&mut self, trailers: &HeaderMap) {
        let size = |(name, value): (&HeaderName, &HeaderValue)| {
            name.as_str().len() + value.len() + FIELD_OVERHEAD
        };
        let room = self.limit - self.data.len();
        if !self.is_whole || trailers.iter().map(size).sum::<usize>() > room {
            return self.give_up();
        }
        let copies = trailers.iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            let mut copy = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            copy.set_sensitive(value.is_sensitive());
            Some((name, copy))
        });
        let mut kept = HeaderMap::with_capacity(trailers.len());
        copies.for_each(|(name, value)| {
            kept.append(name, value);
        });
        self.trailers = Some(kept);
    }

    fn give_up(&mut self) {
        self.is_whole = false;
        self.data = Vec::new();
        self.trailers = None;
    }
}

/// The error of a reading that lags behind a dropped copy: without the error, bytes would be missing in the middle.
#[cold]
fn not_kept() -> BodyError {
    let detail = "the request's body was not kept to be sent again";
    Error::new(Reason::Unexpected).detail(detail).into()
}

/// Memory of a field in a map beside its text, in bytes.
const FIELD_OVERHEAD: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    type Frames = Vec<Result<Frame<Bytes>, BodyError>>;
    type Source = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, BodyError>>>>;

    fn body(frames: &[Vec<u8>], trailers: bool) -> Source {
        of_frames(frames.iter().cloned().map(Bytes::from).collect(), trailers)
    }

    fn of_frames(frames: Vec<Bytes>, trailers: bool) -> Source {
        let frames = frames.into_iter().map(|data| Ok(Frame::data(data)));
        let mut all: Frames = frames.collect();
        if trailers {
            let mut map = HeaderMap::new();
            map.insert("x-end", http::HeaderValue::from_static("1"));
            all.push(Ok(Frame::trailers(map)));
        }
        StreamBody::new(stream::iter(all))
    }

    fn collect(
        replay: Replay<impl Body<Data = Bytes, Error = BodyError> + Unpin>,
    ) -> (Bytes, bool) {
        let collected = tokio_test::block_on(replay.collect()).unwrap();
        let trailers = collected.trailers().is_some();
        (collected.to_bytes(), trailers)
    }

    #[test]
    fn only_what_may_be_read_again_is_kept() {
        let frames = [vec![1], vec![], vec![2], vec![3], vec![4]];
        let mut first = Replay::new(body(&frames, true), 1024);
        let second = first.copy();
        let kept = |replay: &Replay<Source>| replay.shared.borrow().kept.data.clone();
        for _ in 0..3 {
            tokio_test::block_on(first.frame());
        }
        assert_eq!(kept(&first), [1, 2]);
        drop(second);
        tokio_test::block_on(first.frame());
        assert!(kept(&first).is_empty());
        assert!(!first.is_end_stream());
        assert_eq!(collect(first), (Bytes::from_static(&[4]), true));
    }

    #[test]
    fn trailers_count_and_too_many_of_them_are_not_kept() {
        for (limit, whole) in [(1024, true), (100, false)] {
            let first = Replay::new(body(&[vec![1]], true), limit);
            let second = first.copy();
            assert_eq!(collect(first), (Bytes::from_static(&[1]), true));
            assert_eq!(second.is_whole(), whole);
        }
    }

    /// Whether reading the rest fails, and the reading does not look ended before.
    fn fails(replay: Replay<impl Body<Data = Bytes, Error = BodyError> + Unpin>) -> bool {
        !replay.is_end_stream() && tokio_test::block_on(replay.collect()).is_err()
    }

    #[test]
    fn a_reading_that_lags_behind_what_was_dropped_fails() {
        let frames = [vec![1; 5], vec![2; 5], vec![3; 5]];
        let mut first = Replay::new(body(&frames, false), 8);
        let mut second = first.copy();
        let third = first.copy();
        tokio_test::block_on(first.frame());
        tokio_test::block_on(second.frame());
        // More bytes than the limit have passed now.
        tokio_test::block_on(first.frame());
        assert!(fails(second), "in its middle");
        assert_eq!(collect(first).0, vec![3; 5]);
        assert!(fails(third), "from its start, after the end of another");
    }

    #[test]
    fn a_reading_fails_where_the_body_broke_off_and_where_trailers_were_dropped() {
        let broken = Err(BodyError::reset(h2::Reason::CANCEL));
        let frames = vec![Ok(Frame::data(Bytes::from_static(b"a"))), broken];
        let mut first = Replay::new(StreamBody::new(stream::iter(frames)), 100);
        let second = first.copy();
        let third = first.copy();
        let error = tokio_test::block_on((&mut first).collect()).unwrap_err();
        assert_eq!(error.reset_code(), Some(h2::Reason::CANCEL));
        assert!(fails(second) && fails(third));
        let first = Replay::new(body(&[vec![1]], true), 100);
        let second = first.copy();
        assert!(collect(first).1);
        assert!(fails(second));
    }

    proptest! {
        #[test]
        fn a_second_reading_yields_the_same_however_far_the_first_came(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            trailers: bool,
            read in 0usize..10,
        ) {
            let whole: Vec<u8> = frames.concat();
            let mut first = Replay::new(body(&frames, trailers), 1024);
            let second = first.copy();
            for _ in 0..read {
                tokio_test::block_on(first.frame());
            }
            drop(first);
            prop_assert!(second.is_whole());
            let (bytes, had_trailers) = collect(second);
            prop_assert_eq!(&bytes[..], &whole[..]);
            prop_assert_eq!(had_trailers, trailers);
        }

        #[test]
        fn beyond_the_limit_the_first_reading_goes_on_and_no_other_is_possible(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 10..20), 2..8),
        ) {
            let whole: Vec<u8> = frames.concat();
            let first = Replay::new(body(&frames, false), 15);
            let second = first.copy();
            let (bytes, _) = collect(first);
            prop_assert_eq!(&bytes[..], &whole[..]);
            prop_assert!(!second.is_whole());
        }

        #[test]
        fn whatever_the_size_of_frames_the_memory_is_bounded_and_no_read_buffer_is_held(
            sizes in prop::collection::vec(prop_oneof![Just(1usize), 0..64usize, 0..5000usize], 1..200),
            limit in 1usize..20_000,
        ) {
            // As with a codec: all frames are slices of one buffer.
            // An empty buffer has no memory of its own.
            let buffer = Bytes::from(vec![7; sizes.iter().sum::<usize>().max(1)]);
            let mut rest = buffer.clone();
            let frames = sizes.iter().map(|size| rest.split_to(*size)).collect();
            let mut first = Replay::new(of_frames(frames, false), limit);
            let second = first.copy();
            while let Some(frame) = tokio_test::block_on(first.frame()) {
                drop(frame);
                let shared = second.shared.borrow();
                prop_assert!(shared.kept.data.capacity() <= limit);
            }
            prop_assert_eq!(second.is_whole(), buffer.len() <= limit);
            drop(rest);
            prop_assert!(buffer.is_unique());
        }
    }
}
