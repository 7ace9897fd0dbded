//! Names of stages in errors.

use crate::Error;
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};
use tower_layer::Layer;
use tower_service::Service;

/// Adds names of a stage to the errors that pass it, the outermost last. Without an error nothing is formatted.
#[derive(Clone, Debug)]
pub struct InContextLayer(Rc<Names>);

#[derive(Debug)]
struct Names {
    /// Whether the endpoint is named first, if the error knows it.
    endpoint: bool,
    names: Box<[String]>,
}

/// See [`InContextLayer`].
#[derive(Clone, Debug)]
pub struct InContext<S> {
    inner: S,
    names: Rc<Names>,
}

impl InContextLayer {
    /// Adds `names`, such as `route default.http`.
    pub fn new(names: impl Into<Box<[String]>>) -> Self {
        let names = names.into();
        Self(Rc::new(Names {
            endpoint: false,
            names,
        }))
    }

    /// Adds the endpoint that was involved, and then `names`.
    pub fn of_endpoint(names: impl Into<Box<[String]>>) -> Self {
        let names = names.into();
        Self(Rc::new(Names {
            endpoint: true,
            names,
        }))
    }
}

impl<S> Layer<S> for InContextLayer {
    type Service = InContext<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let names = self.0.clone();
        InContext { inner, names }
    }
}

impl<S, Req> Service<Req> for InContext<S>
where
    S: Service<Req, Error = Error>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = InContextFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        InContextFuture {
            inner: self.inner.call(request),
            names: self.names.clone(),
        }
    }
}

pin_project! {
    /// The future of [`InContext`].
    pub struct InContextFuture<F> {
        #[pin]
        inner: F,
        names: Rc<Names>,
    }
}

impl Names {
    fn add_to(&self, error: &mut Error) {
        if self.endpoint
            && let Some(peer) = error.peer_addr()
        {
            error.add_context(format!("endpoint {peer}"));
        }
        for name in &self.names {
            error.add_context(name.clone());
        }
    }
}

impl<F, T> Future for InContextFuture<F>
where
    F: Future<Output = Result<T, Error>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut polled = this.inner.poll(cx);
        if let Poll::Ready(Err(error)) = &mut polled {
            this.names.add_to(error);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use tower_test::mock;

    #[tokio::test]
    async fn an_error_names_the_stages_from_the_outside_in() {
        let layer = InContextLayer::new(["route r".to_owned(), "logical service s".to_owned()]);
        let (inner, mut handle) = mock::pair::<(), ()>();
        let inner = tower::util::MapErr::new(inner, |_| Error::new(Reason::ConnectRefused));
        let mut service = tokio_test::task::spawn(layer.layer(inner));
        handle.allow(1);
        assert!(
            service
                .enter(|cx, mut service| service.poll_ready(cx))
                .is_ready()
        );
        let call = service.call(());
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_error("refused");
        let error = call.await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "logical service s: route r: connection refused"
        );
    }
}
