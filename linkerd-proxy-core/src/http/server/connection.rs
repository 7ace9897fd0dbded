//! A client's connection, as its requests see it.

use crate::transport::Activity;
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
    /// Whether bytes were read that belong to no request yet, and whether all that was written has left.
    pub(super) activity: Arc<Activity>,
    requests: Cell<u32>,
    /// Messages that are being read or written.
    busy: Cell<u32>,
    /// Those of them that are bodies of requests.
    uploads: Cell<u32>,
    pub(super) close: Cell<bool>,
    /// Whether it ends with a reset, as its end would look like that of a response.
    pub(super) broken: Cell<bool>,
    pub(super) parked: Cell<bool>,
    /// The task that serves the connection, while it waits.
    task: RefCell<Option<Waker>>,
    is_polled: Cell<bool>,
}

/// Keeps a connection from being taken for one that waits for a request.
#[derive(Debug)]
pub struct Busy(Rc<Connection>);

/// As [`Busy`], for the body of a request, which may outlast the response.
#[derive(Debug)]
pub struct Uploading(Busy);

impl Connection {
    /// Ends the connection gracefully: what is in flight is finished.
    pub fn close(&self) {
        self.close.set(true);
    }

    /// Whether it ends after the exchanges that are in flight.
    pub fn is_closing(&self) -> bool {
        self.close.get()
    }

    /// Whether it has waited for a request for so long that its buffers were given back.
    pub fn is_parked(&self) -> bool {
        self.parked.get()
    }

    /// A request has begun.
    pub fn busy(self: &Rc<Self>) -> Busy {
        self.activity.forget_reads();
        self.requests.set(self.requests.get().wrapping_add(1));
        self.busy.set(self.busy.get() + 1);
        Busy(self.clone())
    }

    /// Marks the begin of a request's body, after this head.
    ///
    /// A body that announces trailers over HTTP/1 is the last of its connection. If the trailers come after the end of the
    /// response, hyper waits for the next head and keeps the end of the body until that has come; on a connection that is
    /// about to close it does not.
    pub fn uploading(self: &Rc<Self>, head: &request::Parts) -> Uploading {
        if head.version < Version::HTTP_2 && head.headers.contains_key(TRAILER) {
            self.close();
        }
        self.uploads.set(self.uploads.get() + 1);
        Uploading(self.busy())
    }

    /// Whether all is answered, and a request's body goes on.
    pub(super) fn only_uploads(&self) -> bool {
        self.busy.get() > 0 && self.busy.get() == self.uploads.get()
    }

    /// Whether all that was written has left, as far as the connection knows.
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

    /// Whether it waits for a request: all is answered, all answers are sent, and nothing of another request has come.
    pub(in crate::http) fn is_idle(&self) -> bool {
        self.awaits_request() && !self.activity.was_read() && self.is_flushed()
    }

    /// Polls the connection. When its last message ends elsewhere after that, such as an upload in the task of its endpoint's
    /// connection, the task is woken: it has timers to begin.
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
    /// Makes the connection end with a reset: a response broke off, and the end of the connection would be its end.
    pub(in crate::http) fn break_off(&self) {
        self.0.broken.set(true);
    }

    /// Whether all that was written to the connection has left, as far as it knows.
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
            // What was read until now was the request's body.
            connection.activity.forget_reads();
            if !connection.is_polled.get()
                && let Some(task) = &*connection.task.borrow()
            {
                task.wake_by_ref();
            }
        }
    }
}
