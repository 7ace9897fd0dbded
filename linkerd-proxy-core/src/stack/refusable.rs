//! Futures of layers that may refuse a request.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    /// The future of a layer that passes a request on, or refuses it.
    #[project = RefusableProj]
    pub enum Refusable<F, E> {
        /// The request was passed on.
        Called {
            #[pin]
            future: F,
        },
        /// The request was refused.
        Refused {
            error: Option<E>,
        },
    }
}

impl<F, E> Refusable<F, E> {
    /// A request that was passed on.
    pub fn called(future: F) -> Self {
        Self::Called { future }
    }

    /// A request that was refused.
    pub fn refused(error: impl Into<E>) -> Self {
        let error = Some(error.into());
        Self::Refused { error }
    }
}

impl<F, T, E> Future for Refusable<F, E>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            RefusableProj::Called { future } => future.poll(cx),
            RefusableProj::Refused { error } => {
                Poll::Ready(Err(error.take().expect("a refusal is polled once")))
            }
        }
    }
}
