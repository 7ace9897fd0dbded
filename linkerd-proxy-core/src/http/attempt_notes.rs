//! Notes about the attempts to send a request.

use crate::{Error, Reason, endpoint::EndpointQueue};
use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

/// Notes about the attempts to send a request, shared by all of them.
#[derive(Default)]
pub struct AttemptNotes {
    endpoint: Cell<Option<EndpointId>>,
    timed_out: Cell<Option<Reason>>,
    /// The queue in which the present attempt waits.
    queue: RefCell<Option<Rc<dyn EndpointQueue>>>,
}

/// The wait of an attempt in a queue, which ends with it.
pub struct QueueNote(Rc<AttemptNotes>);

/// An endpoint of a balancer, valid as long as the balancer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointId(pub usize);

impl AttemptNotes {
    /// The endpoint of the last attempt. The next attempt prefers another.
    pub fn endpoint(&self) -> Option<EndpointId> {
        self.endpoint.get()
    }

    /// Notes that an endpoint got the request.
    pub fn given_to(&self, endpoint: EndpointId) {
        self.endpoint.set(Some(endpoint));
        self.timed_out.set(None);
    }

    /// The notes of a parallel attempt, which prefers another endpoint.
    pub fn another(&self) -> Self {
        Self {
            endpoint: self.endpoint.clone(),
            ..Self::default()
        }
    }

    /// Notes that the present attempt waits in a queue, until the note is dropped.
    pub fn wait_in(self: &Rc<Self>, queue: Rc<dyn EndpointQueue>) -> QueueNote {
        *self.queue.borrow_mut() = Some(queue);
        QueueNote(self.clone())
    }

    /// The error of the present attempt, whose limit has passed. If it waits in a queue, the error says why no endpoint was
    /// ready.
    pub fn explain(&self, error: Error) -> Error {
        match &*self.queue.borrow() {
            Some(queue) => queue.unready().explain(error),
            None => error,
        }
    }

    /// Notes that the present attempt is ended by a limit of the route, with this reason.
    pub fn time_out(&self, reason: Reason) {
        self.timed_out.set(Some(reason));
    }

    /// The limit of the route that ended the present attempt, if one did.
    pub fn timed_out(&self) -> Option<Reason> {
        self.timed_out.get()
    }

    /// The limit of a policy that ended the present attempt, if one did. The incumbent counts such an end as the endpoint's failure, and that
    /// of a profile not at all.
    pub fn timed_out_by_policy(&self) -> Option<Reason> {
        let reason = self.timed_out();
        reason.filter(|reason| *reason != Reason::ProfileTimeout)
    }
}

impl fmt::Debug for AttemptNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptNotes")
            .field("endpoint", &self.endpoint)
            .field("timed_out", &self.timed_out)
            .finish_non_exhaustive()
    }
}

impl Drop for QueueNote {
    fn drop(&mut self) {
        self.0.queue.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, Unavailable, endpoint::Unready};

    struct NoEndpoints;

    impl EndpointQueue for NoEndpoints {
        fn unready(&self) -> Unready {
            Unready {
                cause: Unavailable::NoEndpoints,
                error: None,
            }
        }
    }

    #[test]
    fn a_limit_is_explained_as_long_as_the_attempt_waits() {
        let notes = Rc::new(AttemptNotes::default());
        let hint = || notes.explain(Reason::RequestTimeout.into()).hint();
        let waits = notes.wait_in(Rc::new(NoEndpoints));
        assert_eq!(hint(), Reason::Failfast(Unavailable::NoEndpoints).hint());
        drop(waits);
        assert_eq!(hint(), Reason::RequestTimeout.hint());
    }
}
