//! The body of a response on its way to the client.

mod peek;

use super::{
    BodyError, Busy, ClassMatch, Deadline, Responder, Upload,
    client::{ClientBody, Lease, StreamBody},
    grpc_status,
    observe::{BodyEnd, Now, ObserveResponse, ResponseObservers},
};
use crate::{Error, Reason};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tokio::time::Instant;

/// The body of a response: an endpoint's, or none.
///
/// One type from the endpoint's connection to the client's, to which layers add in place. When each layer wrapped the body of
/// the one below, a response was moved 35 times, for a tenth of a request's time in this process. Boxed, so that moves are
/// small.
pub struct ResponseBody(Box<Inner>);

struct Inner {
    observers: ResponseObservers,
    endpoint: Option<ClientBody>,
    /// The first frame of the endpoint's body, if it was read ahead.
    peeked: Option<Box<PeekedFrame>>,
    /// The proxy's own answer.
    text: Option<Bytes>,
    ending: Option<Ending>,
    busy: Option<Busy>,
    deadline: Option<Deadline>,
    /// The error that ended the body, until the client's codec takes it.
    broken: Option<BodyError>,
}

impl ResponseBody {
    /// No body.
    pub fn empty() -> Self {
        let observers = ResponseObservers::new(StatusCode::OK, None);
        Self::of_proxy(observers, Bytes::new())
    }

    /// An answer of the proxy itself, with all of its body. Observers see one frame of data and the end.
    pub fn full(answer: Response<impl Into<Bytes>>) -> Response<Self> {
        let (head, text) = answer.into_parts();
        let observers = ResponseObservers::new(head.status, grpc_status(&head.headers));
        Response::from_parts(head, Self::of_proxy(observers, text.into()))
    }

    fn of_proxy(mut observers: ResponseObservers, text: Bytes) -> Self {
        let text = Some(text).filter(|text| !text.is_empty());
        if text.is_none() {
            observers.end(BodyEnd::Complete(None), &Now::default());
        }
        Self(Box::new(Inner {
            observers,
            endpoint: None,
            peeked: None,
            text,
            ending: None,
            busy: None,
            deadline: None,
            broken: None,
        }))
    }

    /// The response of an endpoint. `lease` is held until its body has ended; `stream` is set for HTTP/2.
    pub(super) fn of_endpoint(
        response: Response<Incoming>,
        lease: Box<dyn Lease>,
        stream: Option<StreamBody>,
    ) -> Response<Self> {
        let (head, incoming) = response.into_parts();
        let endpoint = ClientBody::new(incoming, lease, stream);
        let mut observers = ResponseObservers::new(head.status, grpc_status(&head.headers));
        if endpoint.has_ended() {
            observers.end(BodyEnd::Complete(None), &Now::default());
        }
        let body = Inner {
            observers,
            endpoint: Some(endpoint),
            peeked: None,
            text: None,
            ending: None,
            busy: None,
            deadline: None,
            broken: None,
        };
        Response::from_parts(head, Self(Box::new(body)))
    }

    /// Adds an observer of the body, notified after those added before. For this observer the exchange began at `start`.
    pub fn observe(&mut self, observer: Rc<dyn ObserveResponse>, start: Instant) {
        self.0.observers.add(observer, start);
    }

    /// Notes for observers that the request was gRPC.
    pub fn answers_grpc(&mut self) {
        self.0.observers.is_grpc = true;
    }

    /// Notes for observers the class that the request's route gives the response.
    pub fn belongs_to(&mut self, class: ClassMatch) {
        self.0.observers.class = Some(class);
    }

    /// If the body breaks off, notifies `failures` and, if the client speaks gRPC, lets `responder` end the body with trailers.
    pub fn end_well(&mut self, responder: Responder, failures: Rc<dyn ObserveBrokenResponse>) {
        self.0.ending = Some(Ending {
            responder,
            failures,
        });
    }

    /// Keeps the client's connection busy until the body is dropped.
    pub fn hold(&mut self, busy: Option<Busy>) {
        self.0.busy = busy;
    }

    /// Ends the body by an error if it goes on after the deadline. Earlier deadlines of the body stay.
    pub fn end_by(&mut self, deadline: Deadline) {
        let known = self.0.deadline.take();
        self.0.deadline = Some(deadline.and(known));
    }

    /// Keeps the client's side of the request's body, for observers. If that side breaks off, the end of the response is not
    /// the endpoint's failure.
    pub fn answers_upload(&mut self, upload: Option<Rc<Upload>>) {
        self.0.observers.upload = upload;
    }

    /// The endpoint's body alone, without its lease. Only for HTTP/2, where a connection has its own task.
    pub fn into_incoming(mut self) -> Option<Incoming> {
        self.0.endpoint.take().map(ClientBody::into_incoming)
    }
}

/// The form of the client's answer when the body breaks off, and the observer of the break.
struct Ending {
    responder: Responder,
    failures: Rc<dyn ObserveBrokenResponse>,
}

impl Inner {
    fn responder(&self) -> Option<&Responder> {
        self.ending.as_ref().map(|ending| &ending.responder)
    }

    /// Ends the body by an error: with trailers if the client accepts them for that, else by breaking off.
    #[cold]
    fn fail(&mut self, error: BodyError, cx: &mut Context<'_>) -> PolledBody {
        let uploaded = self.observers.upload.as_ref();
        let end = match uploaded.is_some_and(|upload| upload.is_broken()) {
            // The client caused the end.
            true => BodyEnd::Dropped,
            false => BodyEnd::Failed(&error),
        };
        if let (BodyEnd::Failed(_), Some(ending)) = (&end, &self.ending) {
            let Ending {
                responder,
                failures,
            } = ending;
            failures.broke_off(responder, &error.response_failure());
        }
        self.observers.end(end, &Now::default());
        if let Some(trailers) = self.responder().and_then(|answer| answer.rescue(&error)) {
            self.text = None;
            self.give_up();
            return Poll::Ready(Some(Ok(trailers)));
        }
        self.break_off();
        self.give_up();
        self.broken = Some(error);
        // Waits until the tasks that write earlier frames have run.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Releases the endpoint's body.
    fn give_up(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.give_up();
        }
    }

    /// Marks the client's connection as broken, if its end would look like the end of the body.
    fn break_off(&self) {
        let is_delimited = match &self.endpoint {
            Some(endpoint) => endpoint.size_hint().exact().is_some(),
            None => true,
        };
        if let Some(busy) = &self.busy
            && !is_delimited
            && self.responder().is_some_and(|it| it.ends_with_connection())
        {
            busy.break_off();
        }
    }

    /// The text of an answer, which is its whole body.
    fn take_text(&mut self) -> Option<Bytes> {
        let text = self.text.take()?;
        let now = Now::default();
        self.observers.data(text.len(), &now);
        self.observers.end(BodyEnd::Complete(None), &now);
        Some(text)
    }

    /// Yields the error when all frames before it have been written.
    ///
    /// When a body fails, hyper drops all bytes that are not written yet, even the head: the client would only see a closed
    /// connection or a reset stream. Until then hyper polls the body whenever it has written something.
    fn poll_broken(&mut self) -> PolledBody {
        match &self.busy {
            Some(busy) if !busy.is_flushed() => Poll::Pending,
            _ => Poll::Ready(self.broken.take().map(Err)),
        }
    }
}

/// The stream was reset before the end of the response, with `NO_ERROR`, which the client could take for a whole response, too.
#[cold]
fn cut_short() -> BodyError {
    let detail = "the endpoint gave up the stream, with NO_ERROR, before the end of the response";
    Error::new(Reason::StreamReset).detail(detail).into()
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Observer of responses that break off after their head.
pub trait ObserveBrokenResponse {
    /// A response to a request of `responder` broke off, and not by its client.
    fn broke_off(&self, responder: &Responder, error: &Error);
}

/// A frame of an endpoint's body, its error, or its end.
type PeekedFrame = Option<Result<Frame<Bytes>, hyper::Error>>;

/// A frame of a body, its error, or its end.
type PolledBody = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ResponseBody")
            .field(&self.0.endpoint)
            .finish()
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledBody {
        let this = &mut *self.0;
        if this.broken.is_some() {
            return this.poll_broken();
        }
        let Some(endpoint) = &mut this.endpoint else {
            return Poll::Ready(this.take_text().map(|text| Ok(Frame::data(text))));
        };
        let now = Now::default();
        let polled = match this.peeked.take() {
            Some(peeked) => Poll::Ready(*peeked),
            None => endpoint.poll_frame(cx, &now),
        };
        if let Some(deadline) = &mut this.deadline {
            let passed = match &polled {
                Poll::Pending => Some(ready!(deadline.poll(cx, &now))),
                Poll::Ready(_) => deadline.pass(&now),
            };
            if let Some(error) = passed {
                this.deadline = None;
                return this.fail(error, cx);
            }
        }
        let frame = match ready!(polled) {
            Some(Err(error)) => return this.fail(error.into(), cx),
            Some(Ok(frame)) => frame,
            None if endpoint.is_cut_short() => return this.fail(cut_short(), cx),
            None => {
                this.observers.end(BodyEnd::Complete(None), &now);
                return Poll::Ready(None);
            }
        };
        match frame.data_ref() {
            None => {
                let trailers = frame.trailers_ref();
                this.observers.end(BodyEnd::Complete(trailers), &now);
            }
            Some(data) => {
                this.observers.data(data.len(), &now);
                if endpoint.has_ended() {
                    this.observers.end(BodyEnd::Complete(None), &now);
                }
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.broken.is_none()
            && self.0.peeked.is_none()
            && match &self.0.endpoint {
                Some(endpoint) => endpoint.is_end_stream(),
                None => self.0.text.is_none(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0.endpoint {
            Some(_) if self.0.peeked.is_some() => self.0.size_with_peeked(),
            Some(endpoint) => endpoint.size_hint(),
            None => SizeHint::with_exact(self.0.text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

#[cfg(test)]
mod tests;
