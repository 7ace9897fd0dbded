//! Stage 6: dispatch of requests to the endpoints of a backend.

use super::backends::BackendStatus;
use linkerd_balance::Balance;
use linkerd_proxy_core::{EndpointStatus, Error, Reason, Unavailable};
use pin_project_lite::pin_project;
use serde_json::{Value, json};
use std::{
    fmt::Display,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Sends requests to the endpoints of a backend.
///
/// - **Fails as** the balancer or the endpoint; `InvalidBackend`, `Forbidden`.
#[derive(Clone, Debug)]
pub enum Dispatch<B, F> {
    /// To one of the endpoints of a balancer.
    Balance(B),
    /// To the only endpoint, directly: a request that it refuses fails at once.
    Forward(F),
    /// To no endpoint: every request fails.
    Fail(Rc<DispatchFailure>),
}

/// The failure of all requests to a backend without endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatchFailure {
    reason: Reason,
    message: String,
}

impl<B, F, Req> Service<Req> for Dispatch<B, F>
where
    B: Service<Req, Error = Error>,
    F: Service<Req, Response = B::Response, Error = Error>,
{
    type Response = B::Response;
    type Error = Error;
    type Future = DispatchFuture<B::Future, F::Future>;

    /// Always ready: whether to wait is decided for each request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Req) -> Self::Future {
        match self {
            Self::Balance(balance) => DispatchFuture::Balance {
                future: balance.call(request),
            },
            Self::Forward(forward) => DispatchFuture::Forward {
                future: forward.call(request),
            },
            Self::Fail(failure) => {
                let error = Error::new(failure.reason).detail(failure.message.clone());
                DispatchFuture::Fail { error: Some(error) }
            }
        }
    }
}

pin_project! {
    /// The future of [`Dispatch`].
    #[project = DispatchProj]
    pub enum DispatchFuture<B, F> {
        Balance {
            #[pin]
            future: B,
        },
        Forward {
            #[pin]
            future: F,
        },
        Fail {
            error: Option<Error>,
        },
    }
}

impl<B, F, T> Future for DispatchFuture<B, F>
where
    B: Future<Output = Result<T, Error>>,
    F: Future<Output = Result<T, Error>>,
{
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            DispatchProj::Balance { future } => future.poll(cx),
            DispatchProj::Forward { future } => future.poll(cx),
            DispatchProj::Fail { error } => {
                Poll::Ready(Err(error.take().expect("a failure is polled once")))
            }
        }
    }
}

/// The status of a backend, beside its [`Dispatch`].
pub enum DispatchStatus<S> {
    /// The status of a balancer.
    Balance {
        /// The name that was discovered.
        destination: String,
        /// The balancer.
        balance: Balance<SocketAddr, S>,
    },
    /// The status of the only endpoint.
    Forward {
        /// The endpoint.
        endpoint: SocketAddr,
        /// Its status, if it is tracked.
        status: Option<EndpointStatus>,
    },
    /// There is no endpoint.
    Fail(Rc<DispatchFailure>),
}

impl<S, F> Dispatch<Balance<SocketAddr, S>, F> {
    /// Dispatch to one of the endpoints of `destination`.
    pub fn balanced(
        destination: impl Display,
        balance: Balance<SocketAddr, S>,
    ) -> (Self, DispatchStatus<S>) {
        let status = DispatchStatus::Balance {
            destination: destination.to_string(),
            balance: balance.clone(),
        };
        (Self::Balance(balance), status)
    }

    /// Dispatch to the only endpoint, with its `status` if it is tracked.
    pub fn forwarded(
        endpoint: SocketAddr,
        forward: F,
        status: Option<EndpointStatus>,
    ) -> (Self, DispatchStatus<S>) {
        let status = DispatchStatus::Forward { endpoint, status };
        (Self::Forward(forward), status)
    }

    /// Dispatch to no endpoint: the backend is invalid.
    pub fn failed(message: impl Display) -> (Self, DispatchStatus<S>) {
        Self::refused(Reason::InvalidBackend, message)
    }

    /// Dispatch to no endpoint, for this reason.
    pub fn refused(reason: Reason, message: impl Display) -> (Self, DispatchStatus<S>) {
        let message = message.to_string();
        let failure = Rc::new(DispatchFailure { reason, message });
        (Self::Fail(failure.clone()), DispatchStatus::Fail(failure))
    }
}

impl<S: 'static> BackendStatus for DispatchStatus<S> {
    fn name(&self) -> String {
        match self {
            Self::Balance { destination, .. } => destination.clone(),
            Self::Forward { endpoint, .. } => endpoint.to_string(),
            Self::Fail(_) => String::new(),
        }
    }

    fn unavailable(&self) -> Option<Unavailable> {
        match self {
            Self::Balance { balance, .. } => balance.unavailable(),
            Self::Forward { .. } | Self::Fail(_) => None,
        }
    }

    fn inspect(&self) -> Value {
        match self {
            Self::Balance {
                destination,
                balance,
            } => json!({ "destination": destination, "balancer": balance.inspect() }),
            Self::Forward { endpoint, status } => {
                let mut shown = json!({ "forward": endpoint.to_string() });
                if let Some(status) = status {
                    shown["state"] = status.state().name().into();
                    shown["connections"] = status.inspect();
                }
                shown
            }
            Self::Fail(failure) => json!({ "fails": failure.message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MockStage;

    type Stage = MockStage<&'static str, &'static str, Error>;

    #[tokio::test]
    async fn a_request_goes_to_the_balancer_or_to_the_only_endpoint() {
        for dispatch in [Dispatch::Balance as fn(Stage) -> _, Dispatch::Forward] {
            let (mock, mut below) = Stage::new();
            let mut dispatch: Dispatch<Stage, Stage> = dispatch(mock);
            let response = dispatch.call("request");
            let (request, respond) = below.next_request().await.unwrap();
            assert_eq!(request, "request");
            respond.send_response(Ok("response"));
            assert_eq!(response.await.unwrap(), "response");
            let response = dispatch.call("another");
            let (_, respond) = below.next_request().await.unwrap();
            respond.send_response(Err(Reason::QueueFull.into()));
            assert_eq!(response.await.unwrap_err().reason(), Reason::QueueFull);
        }
    }

    #[tokio::test]
    async fn is_ready_though_the_balancer_is_not() {
        let (mock, mut below) = Stage::new();
        below.allow(0);
        let dispatch = Dispatch::<_, Stage>::Balance(mock);
        let mut dispatch = tokio_test::task::spawn(dispatch);
        assert!(
            dispatch
                .enter(|cx, mut dispatch| dispatch.poll_ready(cx))
                .is_ready()
        );
    }

    #[tokio::test]
    async fn a_backend_without_endpoints_says_why() {
        let failure = Rc::new(DispatchFailure {
            reason: Reason::InvalidBackend,
            message: "no such kind".to_owned(),
        });
        let mut dispatch = Dispatch::<Stage, Stage>::Fail(failure.clone());
        let error = dispatch.call("request").await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidBackend);
        assert_eq!(error.to_string(), "no such kind");
        let status = DispatchStatus::<Stage>::Fail(failure);
        assert_eq!(status.inspect()["fails"], "no such kind");
        assert_eq!(status.unavailable(), None, "its own failure is the answer");
    }

    #[test]
    fn the_only_endpoint_is_shown_with_its_state() {
        let status = EndpointStatus::new(linkerd_proxy_core::endpoint::Capacity::Connecting);
        let status = DispatchStatus::<Stage>::Forward {
            endpoint: ([10, 0, 0, 1], 80).into(),
            status: Some(status),
        };
        assert_eq!(status.name(), "10.0.0.1:80");
        assert_eq!(status.inspect()["state"], "connecting");
        assert_eq!(status.unavailable(), None, "its own error says more");
    }
}
