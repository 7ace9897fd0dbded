//! A body that can be sent again, within a bound.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

/// One reading of a body that several may read.
///
/// Frames are kept as the first reading takes them from the client; another reading yields those again and then goes on
/// with the client's. When more than the limit has passed, or nobody is left who could read again, everything kept is
/// dropped: the reading that is under way goes on, a new one is not possible any more.
pub(super) struct Replay<B = hyper::body::Incoming> {
    shared: Rc<RefCell<Shared<B>>>,
    /// The next kept frame to yield.
    next: usize,
    trailers_sent: bool,
}

struct Shared<B> {
    body: B,
    frames: Vec<Bytes>,
    /// How many frames were kept before these, and dropped.
    dropped: usize,
    trailers: Option<HeaderMap>,
    room: usize,
    whole: bool,
    ended: bool,
    size: SizeHint,
}

impl<B: Body<Data = Bytes> + Unpin> Replay<B> {
    pub(super) fn new(body: B, limit: usize) -> Self {
        let shared = Shared {
            size: body.size_hint(),
            body,
            frames: Vec::new(),
            dropped: 0,
            trailers: None,
            room: limit,
            whole: true,
            ended: false,
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

    /// Whether everything that has passed is still kept.
    pub(super) fn is_whole(&self) -> bool {
        self.shared.borrow().whole
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Replay<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let mut shared = this.shared.borrow_mut();
        let kept = this.next.checked_sub(shared.dropped);
        if let Some(frame) = kept.and_then(|at| shared.frames.get(at)) {
            this.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(frame.clone()))));
        }
        if !shared.ended {
            match ready!(Pin::new(&mut shared.body).poll_frame(cx)) {
                None => shared.ended = true,
                Some(Err(error)) => {
                    shared.whole = false;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        if shared.keep(&data, Rc::strong_count(&this.shared) > 1) {
                            this.next += 1;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(other) => {
                        shared.trailers = other.into_trailers().ok();
                        shared.ended = true;
                    }
                },
            }
        }
        let trailers = shared.trailers.clone().filter(|_| !this.trailers_sent);
        this.trailers_sent = true;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.shared.borrow();
        let ended = shared.ended || shared.body.is_end_stream();
        ended
            && self.next == shared.dropped + shared.frames.len()
            && (shared.trailers.is_none() || self.trailers_sent)
    }

    fn size_hint(&self) -> SizeHint {
        match self.next {
            0 => self.shared.borrow().size,
            _ => SizeHint::default(),
        }
    }
}

impl<B> Shared<B> {
    /// Keeps a frame if there is room, and somebody who may want it `again`. Returns whether it was kept.
    fn keep(&mut self, data: &Bytes, again: bool) -> bool {
        if data.is_empty() {
            // It takes no room, so that there could be any number of them.
            return false;
        }
        if self.whole && again && data.len() <= self.room {
            self.room -= data.len();
            self.frames.push(data.clone());
            return true;
        }
        // Whoever reads has read all kept frames, as this one is new.
        self.whole = false;
        self.dropped += self.frames.len();
        self.frames = Vec::new();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;
    use std::convert::Infallible;

    type Frames = Vec<Result<Frame<Bytes>, Infallible>>;
    type Source = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

    fn body(frames: &[Vec<u8>], trailers: bool) -> Source {
        let mut all: Frames = frames
            .iter()
            .map(|data| Ok(Frame::data(Bytes::from(data.clone()))))
            .collect();
        if trailers {
            let mut map = HeaderMap::new();
            map.insert("x-end", http::HeaderValue::from_static("1"));
            all.push(Ok(Frame::trailers(map)));
        }
        StreamBody::new(stream::iter(all))
    }

    fn collect(
        replay: Replay<impl Body<Data = Bytes, Error = Infallible> + Unpin>,
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
        let kept = |replay: &Replay<Source>| replay.shared.borrow().frames.len();
        for _ in 0..3 {
            tokio_test::block_on(first.frame());
        }
        assert_eq!(kept(&first), 2, "not the empty one");
        drop(second);
        tokio_test::block_on(first.frame());
        assert_eq!(kept(&first), 0);
        assert!(!first.is_end_stream());
        assert_eq!(collect(first), (Bytes::from_static(&[4]), true));
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
    }
}
