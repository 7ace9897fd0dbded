//! Answers to requests that fail.

use crate::failures::{RequestFailures, RequestHead};
use http::{Response, Version};
use http_body::Body;
use linkerd_proxy_core::{
    Error, Reason,
    http::{
        Busy, CloseClient, Connection, HttpRequest, ObserveBrokenResponse, PeerAnswer, Responder,
        ResponseBody,
    },
    transport::Side,
};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};
use tower_layer::Layer;
use tower_service::Service;

/// Answers every request: an error becomes a response, or a reset if the endpoint reset its stream.
///
/// The connection is busy until the response is dropped, and ends after an error that is fatal to it.
pub struct RespondLayer<F>(Rc<Responding<F>>);

/// See [`RespondLayer`].
pub struct Respond<S, F> {
    inner: S,
    responding: Rc<Responding<F>>,
}

/// The form of the proxy's own answers on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// The side of the connection.
    pub side: Side,
    /// The version of the connection.
    pub version: Version,
    /// Whether informational headers are allowed.
    pub emit_headers: bool,
    /// Whether the client knows that it talks to a proxy: it gets a text, and a failed request does not end its other requests.
    pub explicit: bool,
}

struct Responding<F> {
    answers: Answers,
    connection: Rc<Connection>,
    failures: RequestFailures,
    count: F,
}

impl<F: Fn(&Error)> RespondLayer<F> {
    /// Answers on `connection`; `failures` keeps each error, and `count` counts it.
    pub fn new(
        answers: Answers,
        connection: &Rc<Connection>,
        failures: RequestFailures,
        count: F,
    ) -> Self {
        let refusals =
            Responder::of_connection(answers.side, answers.emit_headers, answers.explicit);
        connection.refuse_by(refusals);
        Self(Rc::new(Responding {
            answers,
            connection: connection.clone(),
            failures,
            count,
        }))
    }
}

impl<F: Fn(&Error)> Responding<F> {
    fn responder(&self, request: &HttpRequest) -> Responder {
        let responder = Responder::new(request, self.answers.side, self.answers.emit_headers);
        match self.answers.explicit {
            true => responder.with_text(),
            false => responder,
        }
    }

    fn failed(&self, head: Option<&RequestHead>, responder: &Responder, error: &Error) {
        self.failures.request(head, responder, error);
        (self.count)(error);
        // An upload that a client has cancelled ends its own stream, and not the other streams.
        let ends_stream_only =
            self.answers.version == Version::HTTP_2 && error.reason() == Reason::BrokenBody;
        if error.reason().is_fatal() && !ends_stream_only && !self.is_shared() {
            self.connection.close();
        }
    }

    /// Whether requests to other targets share the connection: it does not end with one of them.
    fn is_shared(&self) -> bool {
        self.answers.explicit && self.answers.version == Version::HTTP_2
    }
}

impl<F> ObserveBrokenResponse for Responding<F> {
    fn broke_off(&self, responder: &Responder, error: &Error) {
        tracing::debug!(reason = error.reason().label(), %error, hint = error.reason().hint(), "response broke off");
        self.failures.broken_response(responder, error);
    }
}

impl<S, F> Layer<S> for RespondLayer<F> {
    type Service = Respond<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Respond {
            inner,
            responding: self.0.clone(),
        }
    }
}

impl<S, F> Service<HttpRequest> for Respond<S, F>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = Error>,
    F: Fn(&Error) + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = h2::Error;
    type Future = RespondFuture<S::Future, F>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest) -> Self::Future {
        RespondFuture {
            responder: self.responding.responder(&request),
            head: self.responding.failures.head(&request),
            busy: Some(self.responding.connection.busy()),
            inner: self.inner.call(request),
            responding: self.responding.clone(),
        }
    }
}

pin_project! {
    /// The future of [`Respond`].
    pub struct RespondFuture<T, F> {
        #[pin]
        inner: T,
        responder: Responder,
        head: Option<Box<RequestHead>>,
        busy: Option<Busy>,
        responding: Rc<Responding<F>>,
    }
}

impl<T, F> Future for RespondFuture<T, F>
where
    T: Future<Output = Result<Response<ResponseBody>, Error>>,
    F: Fn(&Error) + 'static,
{
    type Output = Result<Response<ResponseBody>, h2::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match ready!(this.inner.poll(cx)) {
            Ok(mut response) => {
                if this.responding.answers.version != Version::HTTP_2 {
                    match ends_with_connection(&response) {
                        // Chunks would mark the body as complete, which is not known.
                        true => this.responder.end_with_connection(),
                        // The version is that of this connection, whatever the endpoint speaks (RFC 9110, section 6.2).
                        false => *response.version_mut() = Version::HTTP_11,
                    }
                }
                if let Some(failure) = response.peer_failure() {
                    let failures = &this.responding.failures;
                    let head = this.head.as_deref();
                    failures.told_by_peer(head, this.responder, failure, response.status());
                    response = this.responder.explain_peer(response);
                }
                let shared = this.responding.is_shared();
                if !shared && response.extensions().get::<CloseClient>().is_some() {
                    this.responding.connection.close();
                }
                let failures = this.responding.clone();
                response.body_mut().end_well(*this.responder, failures);
                response
            }
            Err(error) => {
                this.responding
                    .failed(this.head.as_deref(), this.responder, &error);
                this.responder.respond(&error)?
            }
        };
        response.body_mut().hold(this.busy.take());
        Poll::Ready(Ok(response))
    }
}

/// Whether the body of an endpoint's response ends with its connection, as in HTTP/1.0 without a length.
fn ends_with_connection(response: &Response<ResponseBody>) -> bool {
    let body = response.body();
    response.version() == Version::HTTP_10
        && !body.is_end_stream()
        && body.size_hint().exact().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failures::FailureLog,
        testing::{TestMetrics, client},
    };
    use http::{Request, StatusCode};
    use linkerd_proxy_core::http::{RequestBody, RequestContext};
    use std::cell::RefCell;
    use tower::service_fn;

    /// The answer to a request that fails for this reason, and the counted reasons.
    async fn answer(version: Version, reason: Reason) -> (StatusCode, Vec<Reason>) {
        let counted = Rc::new(RefCell::new(Vec::new()));
        let (connection, counts) = (Rc::new(Connection::default()), counted.clone());
        let answers = Answers {
            side: Side::Inbound,
            version,
            emit_headers: true,
            explicit: false,
        };
        let count = move |error: &Error| counts.borrow_mut().push(error.reason());
        let failures = FailureLog::new(1, TestMetrics::new().families.failures)
            .requests(Side::Inbound, &client());
        let layer = RespondLayer::new(answers, &connection, failures, count);
        let fails = service_fn(move |_| async move { Err(Error::new(reason)) });
        let request = Request::new(RequestBody::empty());
        let request = HttpRequest::new(request, RequestContext::arriving(None));
        let response = layer.layer(fails).call(request).await.unwrap();
        let counted = counted.borrow().clone();
        (response.status(), counted)
    }

    #[tokio::test]
    async fn a_response_may_end_the_connection_unless_other_targets_share_it() {
        for (version, explicit, ends) in [
            (Version::HTTP_11, false, true),
            (Version::HTTP_11, true, true),
            (Version::HTTP_2, false, true),
            (Version::HTTP_2, true, false),
        ] {
            let connection = Rc::new(Connection::default());
            let answers = Answers {
                side: Side::Outbound,
                version,
                emit_headers: true,
                explicit,
            };
            let failures = FailureLog::new(1, TestMetrics::new().families.failures)
                .requests(Side::Outbound, &client());
            let layer = RespondLayer::new(answers, &connection, failures, |_: &Error| ());
            let answer = service_fn(|_| async {
                let mut response = Response::new(ResponseBody::empty());
                response.extensions_mut().insert(CloseClient);
                Ok(response)
            });
            let request = Request::new(RequestBody::empty());
            let request = HttpRequest::new(request, RequestContext::arriving(None));
            layer.layer(answer).call(request).await.unwrap();
            assert_eq!(connection.is_closing(), ends, "{version:?}, {explicit}");
        }
    }

    #[tokio::test]
    async fn an_error_becomes_an_answer_and_is_counted_once() {
        for reason in [Reason::NoRoute, Reason::InFlightLimit] {
            let (status, counted) = answer(Version::HTTP_11, reason).await;
            assert_eq!((status, counted), (reason.status(), vec![reason]));
        }
    }
}
