//! Connections that end at the latest when their listener cuts them off.

use super::{ConnectionGuard, ListenerContext};
use crate::Error;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

pin_project! {
    /// The future of a connection, dropped when its listener cuts it off.
    ///
    /// - **Fails as** the reason of the cut: `ListenerRemoved`, `ShutdownDeadline`, `ClientUntrusted`.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct UntilCutOff<F> {
        #[pin]
        connection: F,
        guard: Option<ConnectionGuard>,
        is_watched: bool,
    }
}

impl ConnectionGuard {
    /// Runs a connection until it ends, or until the listener cuts it off. Must be polled by one task: the listener wakes the
    /// first one.
    pub fn until_cut_off<F: Future>(self, connection: F) -> UntilCutOff<F> {
        UntilCutOff {
            connection,
            guard: Some(self),
            is_watched: false,
        }
    }
}

impl ListenerContext {
    /// Runs a connection until it ends, or until this part of the listener cuts it off. The listener itself counts its connections, and
    /// cuts them off, where they are accepted.
    pub fn until_part_cut_off<F: Future>(self: &Rc<Self>, connection: F) -> UntilCutOff<F> {
        UntilCutOff {
            connection,
            guard: self.is_part().then(|| self.connection()),
            is_watched: false,
        }
    }
}

impl<F: Future> Future for UntilCutOff<F> {
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(guard) = this.guard else {
            return this.connection.poll(cx).map(Ok);
        };
        if let Some(reason) = guard.cut_off_reason() {
            return Poll::Ready(Err(reason.into()));
        }
        let polled = this.connection.poll(cx);
        if polled.is_pending() && !*this.is_watched {
            guard.watched_by(cx.waker());
            *this.is_watched = true;
        }
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Reason, drain, transport::ListenerContext};
    use std::future::{pending, ready};
    use tokio_test::{assert_pending, assert_ready, task};

    #[test]
    fn a_connection_runs_until_it_ends_or_is_cut_off() {
        let (_signal, drain) = drain::channel();
        let listener = ListenerContext::new(drain);
        let mut ended = task::spawn(listener.connection().until_cut_off(ready(1)));
        assert_eq!(assert_ready!(ended.poll()).unwrap(), 1);

        let mut open = task::spawn(listener.connection().until_cut_off(pending::<()>()));
        assert_pending!(open.poll());
        assert!(!open.is_woken());
        listener.cut_off(Reason::ListenerRemoved);
        assert!(open.is_woken());
        let error = assert_ready!(open.poll()).unwrap_err();
        assert_eq!(error.reason(), Reason::ListenerRemoved);

        let mut late = task::spawn(listener.connection().until_cut_off(ready(())));
        assert!(assert_ready!(late.poll()).is_err());
    }
}
