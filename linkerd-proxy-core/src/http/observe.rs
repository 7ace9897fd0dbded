//! A response's body that tells those who measure it what happens to it.
//!
//! Each layer adds its observer to the body that it passes on ([`Observed::and`]). The body stays one, whatever the
//! number of layers: its frames are looked at once, and the clock is read once for all of them.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::{
    cell::Cell,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// What becomes of a body.
pub trait Observe {
    /// A frame of data has passed.
    fn data(&mut self, len: usize, now: &Now);
    /// The body has ended, or was dropped.
    fn end(&mut self, end: End<'_>, now: &Now);
}

/// How a body ended.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// All of it has passed.
    Complete(Option<&'a HeaderMap>),
    /// It broke off.
    Failed(&'a hyper::Error),
    /// Nobody wanted the rest.
    Dropped,
}

/// The time of an event. The clock is read when the first observer asks.
#[derive(Debug, Default)]
pub struct Now(Cell<Option<Instant>>);

impl Now {
    /// The time.
    pub fn get(&self) -> Instant {
        let now = self.0.get().unwrap_or_else(Instant::now);
        self.0.set(Some(now));
        now
    }
}

/// Two observers of one body, told in this order.
#[derive(Debug)]
pub struct Both<A, B>(A, B);

impl<A: Observe, B: Observe> Observe for Both<A, B> {
    fn data(&mut self, len: usize, now: &Now) {
        self.0.data(len, now);
        self.1.data(len, now);
    }

    fn end(&mut self, end: End<'_>, now: &Now) {
        self.0.end(end, now);
        self.1.end(end, now);
    }
}

/// A body whose frames observers see. The end is told exactly once.
#[derive(Debug)]
pub struct Observed<B, O: Observe> {
    observers: UntilEnd<O>,
    body: B,
}

/// Observers that have not been told of the end yet. A drop is the end.
#[derive(Debug)]
struct UntilEnd<O: Observe>(Option<O>);

impl<B: Body, O: Observe> Observed<B, O> {
    /// A body that has its end still before it tells `observer` of it, an empty one does so now.
    pub fn new(body: B, observer: O) -> Self {
        let mut observers = UntilEnd(Some(observer));
        if body.is_end_stream() {
            observers.end(End::Complete(None), &Now::default());
        }
        Self { observers, body }
    }

    /// Adds an observer, told after those that are there. If the body has ended already, it is told so now.
    pub fn and<P: Observe>(mut self, mut next: P) -> Observed<B, Both<O, P>> {
        let observers = match self.observers.0.take() {
            Some(first) => Some(Both(first, next)),
            None => {
                next.end(End::Complete(None), &Now::default());
                None
            }
        };
        Observed {
            observers: UntilEnd(observers),
            body: self.body,
        }
    }
}

impl<O: Observe> UntilEnd<O> {
    fn end(&mut self, end: End<'_>, now: &Now) {
        if let Some(mut observer) = self.0.take() {
            observer.end(end, now);
        }
    }
}

impl<O: Observe> Drop for UntilEnd<O> {
    fn drop(&mut self) {
        self.end(End::Dropped, &Now::default());
    }
}

impl<B, O> Body for Observed<B, O>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
    O: Observe + Unpin,
{
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let now = Now::default();
        match &frame {
            None => this.observers.end(End::Complete(None), &now),
            Some(Err(error)) => this.observers.end(End::Failed(error), &now),
            Some(Ok(frame)) => match frame.data_ref() {
                None => this
                    .observers
                    .end(End::Complete(frame.trailers_ref()), &now),
                Some(data) => {
                    if let Some(observer) = &mut this.observers.0 {
                        observer.data(data.len(), &now);
                    }
                    if this.body.is_end_stream() {
                        this.observers.end(End::Complete(None), &now);
                    }
                }
            },
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, combinators::BoxBody};
    use std::{cell::RefCell, rc::Rc};

    /// Writes down what it is told, under a name.
    struct Note(&'static str, Rc<RefCell<Vec<String>>>);

    impl Observe for Note {
        fn data(&mut self, len: usize, _: &Now) {
            self.1.borrow_mut().push(format!("{} {len}", self.0));
        }

        fn end(&mut self, end: End<'_>, _: &Now) {
            self.1.borrow_mut().push(format!("{} {end:?}", self.0));
        }
    }

    fn body(text: &'static str) -> BoxBody<Bytes, hyper::Error> {
        let body = http_body_util::Full::new(Bytes::from_static(text.as_bytes()));
        body.map_err(|never| match never {}).boxed()
    }

    fn observed(text: &'static str) -> (impl Body + Unpin, Rc<RefCell<Vec<String>>>) {
        let notes = Rc::new(RefCell::default());
        let note = |name| Note(name, Rc::clone(&notes));
        let body = Observed::new(body(text), note("a"))
            .and(note("b"))
            .and(note("c"));
        (body, notes)
    }

    #[test]
    fn all_observers_see_each_frame_and_one_end() {
        let (mut body, notes) = observed("hello");
        assert!(tokio_test::block_on(body.frame()).is_some());
        assert!(tokio_test::block_on(body.frame()).is_none());
        drop(body);
        assert_eq!(
            *notes.borrow(),
            [
                "a 5",
                "b 5",
                "c 5",
                "a Complete(None)",
                "b Complete(None)",
                "c Complete(None)"
            ]
        );
    }

    #[test]
    fn an_empty_body_has_ended_for_each_that_is_added() {
        let (_body, notes) = observed("");
        assert_eq!(
            *notes.borrow(),
            ["a Complete(None)", "b Complete(None)", "c Complete(None)"]
        );
    }

    #[test]
    fn a_drop_is_an_end() {
        let (body, notes) = observed("hello");
        drop(body);
        assert_eq!(*notes.borrow(), ["a Dropped", "b Dropped", "c Dropped"]);
    }

    #[tokio::test(start_paused = true)]
    async fn observers_of_one_event_see_one_time() {
        let now = Now::default();
        let first = now.get();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(now.get(), first);
    }
}
