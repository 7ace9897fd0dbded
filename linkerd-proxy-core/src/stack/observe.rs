//! Observers of calls: layers that only watch, and change nothing but the text of an error.

use crate::Error;
use pin_project_lite::pin_project;
use std::{
    marker::PhantomData,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// An observer of a service's calls. A pair of observers is an observer, too: the first is outside of the second.
///
/// One service with a pair costs less than two services: each moves the response once more.
pub trait ObserveCall<Req, Rsp> {
    /// Facts about a call, kept until it ends.
    type Call;

    /// The call begins.
    fn begin(&self, request: &mut Req) -> Self::Call;

    /// The call has its response. Its body may go on.
    fn answered(&self, call: &Self::Call, response: &mut Rsp);

    /// The call failed. Not notified of a call that was dropped.
    fn failed(&self, call: &Self::Call, error: &mut Error);
}

/// Notifies an observer of calls.
#[derive(Debug)]
pub struct ObserveLayer<O>(Rc<O>);

/// See [`ObserveLayer`].
#[derive(Debug)]
pub struct Observe<S, O> {
    inner: S,
    observer: Rc<O>,
}

impl<O> ObserveLayer<O> {
    /// Notifies `observer` of calls.
    pub fn new(observer: O) -> Self {
        Self(Rc::new(observer))
    }
}

impl<S, O> Layer<S> for ObserveLayer<O> {
    type Service = Observe<S, O>;

    fn layer(&self, inner: S) -> Self::Service {
        let observer = self.0.clone();
        Observe { inner, observer }
    }
}

impl<S: Clone, O> Clone for Observe<S, O> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            observer: self.observer.clone(),
        }
    }
}

impl<S, O, Req> Service<Req> for Observe<S, O>
where
    S: Service<Req, Error = Error>,
    O: ObserveCall<Req, S::Response>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = ObserveFuture<S::Future, O, O::Call, Req>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Req) -> Self::Future {
        ObserveFuture {
            call: self.observer.begin(&mut request),
            inner: self.inner.call(request),
            observer: self.observer.clone(),
            request: PhantomData,
        }
    }
}

pin_project! {
    /// The future of [`Observe`].
    pub struct ObserveFuture<F, O, C, Req> {
        #[pin]
        inner: F,
        observer: Rc<O>,
        call: C,
        request: PhantomData<fn(Req)>,
    }
}

impl<F, O, C, Req, Rsp> Future for ObserveFuture<F, O, C, Req>
where
    F: Future<Output = Result<Rsp, Error>>,
    O: ObserveCall<Req, Rsp, Call = C>,
{
    type Output = Result<Rsp, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The result is changed in place and returned: taking it apart would move it twice.
        let mut polled = this.inner.poll(cx);
        match &mut polled {
            Poll::Pending => {}
            Poll::Ready(Ok(response)) => this.observer.answered(this.call, response),
            Poll::Ready(Err(error)) => this.observer.failed(this.call, error),
        }
        polled
    }
}

impl<A, B, Req, Rsp> ObserveCall<Req, Rsp> for (A, B)
where
    A: ObserveCall<Req, Rsp>,
    B: ObserveCall<Req, Rsp>,
{
    type Call = (A::Call, B::Call);

    fn begin(&self, request: &mut Req) -> Self::Call {
        (self.0.begin(request), self.1.begin(request))
    }

    fn answered(&self, call: &Self::Call, response: &mut Rsp) {
        self.1.answered(&call.1, response);
        self.0.answered(&call.0, response);
    }

    fn failed(&self, call: &Self::Call, error: &mut Error) {
        self.1.failed(&call.1, error);
        self.0.failed(&call.0, error);
    }
}

/// An optional observer.
impl<A, Req, Rsp> ObserveCall<Req, Rsp> for Option<A>
where
    A: ObserveCall<Req, Rsp>,
{
    type Call = Option<A::Call>;

    fn begin(&self, request: &mut Req) -> Self::Call {
        self.as_ref().map(|observer| observer.begin(request))
    }

    fn answered(&self, call: &Self::Call, response: &mut Rsp) {
        if let (Some(observer), Some(call)) = (self, call) {
            observer.answered(call, response);
        }
    }

    fn failed(&self, call: &Self::Call, error: &mut Error) {
        if let (Some(observer), Some(call)) = (self, call) {
            observer.failed(call, error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use std::cell::RefCell;
    use tower::service_fn;

    /// Records its notifications, under a name.
    struct Note(&'static str, Rc<RefCell<Vec<String>>>);

    impl Note {
        fn add(&self, event: &str) {
            self.1.borrow_mut().push(format!("{} {event}", self.0));
        }
    }

    impl ObserveCall<u8, u8> for Note {
        type Call = u8;

        fn begin(&self, request: &mut u8) -> u8 {
            self.add("begins");
            *request
        }

        fn answered(&self, call: &u8, response: &mut u8) {
            self.add(&format!("{call} is answered by {response}"));
        }

        fn failed(&self, call: &u8, error: &mut Error) {
            self.add(&format!("{call} failed: {error}"));
            error.add_context(self.0.to_owned());
        }
    }

    #[tokio::test]
    async fn a_pair_sees_requests_from_the_outside_and_results_from_the_inside() {
        let notes = Rc::new(RefCell::default());
        let [outer, inner] = ["outer", "inner"].map(|name| Note(name, Rc::clone(&notes)));
        let layer = ObserveLayer::new((outer, inner));
        let mut service = layer.layer(service_fn(async |request: u8| match request {
            0 => Err(Error::new(Reason::QueueFull)),
            _ => Ok(request + 1),
        }));
        assert_eq!(service.call(1).await.unwrap(), 2);
        let expected = [
            "outer begins",
            "inner begins",
            "inner 1 is answered by 2",
            "outer 1 is answered by 2",
        ];
        assert_eq!(notes.take(), expected);
        let error = service.call(0).await.unwrap_err();
        assert!(error.to_string().starts_with("outer: inner: "), "{error}");
        drop(service.call(1));
        assert_eq!(notes.borrow().len(), 6, "a dropped call has no end");
    }

    #[tokio::test]
    async fn one_that_is_left_out_sees_nothing() {
        let notes = Rc::new(RefCell::default());
        let there = Some(Note("there", Rc::clone(&notes)));
        let left_out = None::<Note>;
        let layer = ObserveLayer::new((there, left_out));
        let mut service = layer.layer(service_fn(async |request: u8| Ok(request + 1)));
        assert_eq!(service.call(1).await.unwrap(), 2);
        assert_eq!(notes.take(), ["there begins", "there 1 is answered by 2"]);
    }
}
