//! One attempt to send a request.

use super::conditions::AttemptResult;
use crate::outbound::timeouts::TimedFuture;
use http::{Response, Version};
use linkerd_proxy_core::{
    Error, Reason,
    http::{ResponseBody, grpc_status},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

pin_project! {
    /// An attempt: its response or error, classified for retries.
    ///
    /// - **Reports** that the limit for its headers has passed, and goes on: the exchange decides whether to give it up.
    /// - **Fails as** its other limits, and as the stage below.
    pub struct Attempt<F> {
        #[pin]
        inner: TimedFuture<F>,
        // Whether the first frame is read: with HTTP/2 it may be trailers with a code.
        peeks: bool,
        // A response that waits for its first frame.
        response: Option<Response<ResponseBody>>,
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> Attempt<F> {
    /// An attempt that has been called. `peeks`: the policy retries by gRPC code.
    pub fn new(inner: TimedFuture<F>, peeks: bool) -> Self {
        Self {
            inner,
            peeks,
            response: None,
            sleep: None,
        }
    }

    /// Gives up an attempt that is late. Returns its error; the caller drops it.
    pub fn give_up(&self) -> Error {
        self.inner.limits().time_out(Reason::ResponseHeadersTimeout)
    }
}

/// The end of an attempt.
pub type Attempted = (Result<Response<ResponseBody>, Error>, AttemptResult);

/// The next event of an attempt.
pub enum AttemptEvent {
    /// It ended.
    Ended(Attempted),
    /// The limit for its headers has passed. Polled again, it goes on without that limit.
    Late,
}

impl<F> Attempt<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    /// The next event. The attempt must not be polled after its end.
    pub fn poll_event(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AttemptEvent> {
        let mut this = self.project();
        if this.response.is_none() {
            let Some(result) = ready!(this.inner.as_mut().poll_headers(cx)) else {
                return Poll::Ready(AttemptEvent::Late);
            };
            match result {
                Ok(response) => {
                    let code = grpc_status(response.headers());
                    let may_come = response.version() == Version::HTTP_2 && code.is_none();
                    if !(*this.peeks && may_come) {
                        return Poll::Ready(answered(response, code));
                    }
                    *this.response = Some(response);
                }
                Err(error) => return Poll::Ready(failed(error)),
            }
        }
        let response = this.response.as_mut().expect("it has come");
        let mut code = response.body_mut().poll_grpc_code(cx);
        if code.is_pending() {
            let limits = this.inner.limits();
            let until = || {
                let latest = Instant::now() + PEEK;
                Box::pin(sleep_until(
                    limits.end().map_or(latest, |end| end.min(latest)),
                ))
            };
            ready!(this.sleep.get_or_insert_with(until).as_mut().poll(cx));
            if limits.end().is_some_and(|end| end <= Instant::now()) {
                return Poll::Ready(failed(limits.time_out(Reason::RequestTimeout)));
            }
            code = Poll::Ready(None);
        }
        let code = ready!(code);
        let response = this.response.take().expect("it has come");
        Poll::Ready(answered(response, code))
    }
}

fn answered(response: Response<ResponseBody>, code: Option<u8>) -> AttemptEvent {
    let result = AttemptResult::Answer {
        status: response.status(),
        code,
    };
    AttemptEvent::Ended((Ok(response), result))
}

fn failed(error: Error) -> AttemptEvent {
    let result = AttemptResult::of_error(&error);
    AttemptEvent::Ended((Err(error), result))
}

/// The longest time for which the headers of a response wait for its first frame, which may be trailers with a code. A stream
/// without data yet is not delayed any longer; the incumbent has no limit.
const PEEK: Duration = Duration::from_secs(1);
