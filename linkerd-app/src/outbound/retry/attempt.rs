//! One attempt to send a request.

use super::conditions::AttemptResult;
use crate::outbound::timeouts::RequestSent;
use http::{Response, Version};
use linkerd_proxy_core::{
    Error, Reason,
    http::{AttemptNotes, ResponseBody, grpc_status},
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

pin_project! {
    /// An attempt: its response, or its error, and what that means for retries.
    ///
    /// - **Fails as** `ResponseHeadersTimeout`, and as what is called.
    pub struct Attempt<F> {
        #[pin]
        inner: F,
        sent: RequestSent,
        attempts: Option<Rc<AttemptNotes>>,
        // From the end of the request to the response's headers.
        headers_limit: Option<Duration>,
        // Whether the first frame is looked at, as it may be trailers.
        peeks: bool,
        // A response whose first frame is waited for.
        response: Option<Response<ResponseBody>>,
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F> Attempt<F> {
    /// An attempt whose request has been given to `inner`. `peeks`: the policy retries by gRPC code.
    pub fn new(
        inner: F,
        sent: RequestSent,
        attempts: Option<Rc<AttemptNotes>>,
        headers_limit: Option<Duration>,
        peeks: bool,
    ) -> Self {
        Self {
            inner,
            sent,
            attempts,
            headers_limit,
            peeks,
            response: None,
            sleep: None,
        }
    }
}

/// The end of an attempt.
pub type Attempted = (Result<Response<ResponseBody>, Error>, AttemptResult);

impl<F> Future for Attempt<F>
where
    F: Future<Output = Result<Response<ResponseBody>, Error>>,
{
    type Output = Attempted;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Attempted> {
        let mut this = self.project();
        if this.response.is_none() {
            match this.inner.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) if *this.peeks && may_have_code(&response) => {
                    *this.response = Some(response);
                    *this.sleep = None;
                }
                Poll::Ready(Ok(response)) => return Poll::Ready(answered(response, None)),
                Poll::Ready(Err(error)) => return Poll::Ready(failed(error)),
                Poll::Pending => {
                    let Some(limit) = *this.headers_limit else {
                        return Poll::Pending;
                    };
                    ready!(poll_headers_limit(this.sleep, this.sent, limit, cx));
                    if let Some(attempts) = this.attempts {
                        attempts.time_out();
                    }
                    return Poll::Ready(failed(Reason::ResponseHeadersTimeout.into()));
                }
            }
        }
        let response = this.response.as_mut().expect("it has come");
        let mut code = response.body_mut().poll_grpc_code(cx);
        if code.is_pending() {
            let until = || Box::pin(sleep_until(Instant::now() + PEEK));
            let sleep = this.sleep.get_or_insert_with(until);
            code = sleep.as_mut().poll(cx).map(|()| None);
        }
        let code = ready!(code);
        let response = this.response.take().expect("it has come");
        Poll::Ready(answered(response, code))
    }
}

/// Whether a code may be in the trailers of a response: with HTTP/2, and if there is none in its headers.
fn may_have_code(response: &Response<ResponseBody>) -> bool {
    response.version() == Version::HTTP_2 && grpc_status(response.headers()).is_none()
}

fn answered(response: Response<ResponseBody>, code: Option<u8>) -> Attempted {
    let result = AttemptResult::Answer {
        status: response.status(),
        code: code.or_else(|| grpc_status(response.headers())),
    };
    (Ok(response), result)
}

fn failed(error: Error) -> Attempted {
    let result = AttemptResult::of_error(&error);
    (Err(error), result)
}

/// Ready when the limit has passed. An upload does not say when it ends: it is looked at again when it could have passed.
fn poll_headers_limit(
    sleep: &mut Option<Pin<Box<Sleep>>>,
    sent: &RequestSent,
    limit: Duration,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        let at = sent.at().unwrap_or_else(Instant::now) + limit;
        let sleep = sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.is_elapsed() {
            if at <= Instant::now() {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
        ready!(sleep.as_mut().poll(cx));
    }
}

/// How long the headers of a response wait for its first frame, which may be trailers with a code. A stream that has
/// nothing to say yet is not held up for longer; the incumbent waits as long as it takes.
const PEEK: Duration = Duration::from_secs(1);
