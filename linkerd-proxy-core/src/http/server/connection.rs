//! A client's connection, as its requests see it.

use crate::{http::Responder, transport::Activity};
use http::{Version, header::TRAILER, request};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
};

/// The state of a client's connection, shared by the server and the requests on it.
#[derive(Debug, Default)]
pub struct Connection {
    /// Whether bytes were read that belong to no request yet, and whether all written bytes have left.
    pub(super) activity: Arc<Activity>,
    requests: Cell<u32>,
    /// Messages that are being read or written.
    busy: Cell<u32>,
    /// The messages in `busy` that are bodies of requests.
    uploads: Cell<u32>,
    pub(super) close: Cell<bool>,
    /// Whether the connection ends with a reset, as a plain end would look like the end of a response.
    pub(super) broken: Cell<bool>,
    pub(super) parked: Cell<bool>,
    /// The form of answers to requests that no stage sees.
    refusals: Cell<Option<Responder>>,
    /// The task that serves the connection, while it waits.
    task: RefCell<Option<Waker>>,
    is_polled: Cell<bool>,
}

/// Keeps a connection from counting as waiting for a request.
#[derive(Debug)]
pub struct Busy(Rc<Connection>);

/// Like [`Busy`], for the body of a request, which may outlast the response.
#[derive(Debug)]
pub struct Uploading(Busy);

impl Connection {
    /// Ends the connection gracefully: requests in flight are finished.
    pub fn close(&self) {
        self.close.set(true);
    }

    /// Answers by `responder` the requests that no stage sees: the codec refuses their heads, or the heads are late. Without one,
    /// such an answer has a status only.
    pub fn refuse_by(&self, responder: Responder) {
        self.refusals.set(Some(responder));
    }

    pub(super) fn refusals(&self) -> Option<Responder> {
        self.refusals.get()
    }

    /// Whether it ends after the exchanges that are in flight.
    pub fn is_closing(&self) -> bool {
        self.close.get()
    }

    /// Whether the connection has waited for a request for so long that its buffers were freed.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// A request has begun.
    pub fn busy(self: &Rc<Self>) -> Busy {
        self.activity.forget_reads();
        self.activity.pass_writes();
        self.requests.set(self.requests.get().wrapping_add(1));
        self.busy.set(self.busy.get() + 1);
        Busy(self.clone())
    }

    /// Marks the start of a request's body, after this head.
    ///
    /// A body that announces trailers over HTTP/1 is the last of its connection. If the trailers come after the end of the
    /// response, hyper waits for the next head, and delivers the end of the body only after it. On a connection that is about to
    /// close, hyper delivers it at once.
    pub fn uploading(self: &Rc<Self>, head: &request::Parts) -> Uploading {
        if head.version < Version::HTTP_2 && head.headers.contains_key(TRAILER) {
            self.close();
        }
        self.uploads.set(self.uploads.get() + 1);
        Uploading(self.busy())
    }

    /// Whether all requests are answered, and only bodies of requests go on.
    pub(super) fn only_uploads(&self) -> bool {
        self.busy.get() > 0 && self.busy.get() == self.uploads.get()
    }

    /// Whether a request has come completely, and its response has not ended.
    pub(super) fn awaits_response(&self) -> bool {
        self.busy.get() > 0 && self.uploads.get() == 0
    }

    /// Whether all written bytes have left, as far as the connection knows.
    fn is_flushed(&self) -> bool {
        self.activity.is_flushed()
    }

    /// The count of requests that have begun.
    pub(in crate::http) fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Whether no message is being read or written.
    pub(super) fn awaits_request(&self) -> bool {
        self.busy.get() == 0
    }

    /// Whether the connection waits for a request: all are answered, all answers are sent, and no byte of another request has come.
    pub(in crate::http) fn is_idle(&self) -> bool {
        self.awaits_request() && !self.activity.was_read() && self.is_flushed()
    }

    /// Polls the connection. Its task is woken when the last message ends outside of this poll, such as an upload in the task of
    /// its endpoint's connection: timers have to start.
    pub(super) fn polled<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> T,
    ) -> T {
        self.is_polled.set(true);
        let polled = poll(cx);
        self.is_polled.set(false);
        if self.busy.get() > 0 {
            let mut task = self.task.borrow_mut();
            if !task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                *task = Some(cx.waker().clone());
            }
        }
        polled
    }

    /// Whether the headers of a request have begun and not ended.
    pub(super) fn reads_headers(&self) -> bool {
        self.awaits_request() && self.activity.was_read()
    }
}

impl Busy {
    /// Makes the connection end with a reset: a response broke off, and a plain end would look like the end of the response.
    pub(in crate::http) fn break_off(&self) {
        self.0.broken.set(true);
    }

    /// Whether all written bytes have left, as far as the connection knows.
    pub(in crate::http) fn is_flushed(&self) -> bool {
        self.0.is_flushed()
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        let connection = &self.0.0;
        connection.uploads.set(connection.uploads.get() - 1);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.busy.set(connection.busy.get() - 1);
        if connection.busy.get() == 0 {
            // The bytes read until now were the request's body.
            connection.activity.forget_reads();
            if connection.refusals.get().is_some() {
                connection.activity.hold_refusals_after_flush();
            }
            if !connection.is_polled.get()
                && let Some(task) = &*connection.task.borrow()
            {
                task.wake_by_ref();
            }
        }
    }
}
