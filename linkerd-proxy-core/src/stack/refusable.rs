//! Futures of layers that may refuse a request.

use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

pin_project! {
    /// The future of a layer that passes a request on, or refuses it.
    pub struct Refusable<F, E> {
        #[pin]
        state: State<F, E>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, E> {
        Called {
            #[pin]
            future: F,
        },
        Refused {
            error: Option<E>,
        },
    }
}

impl<F, E> Refusable<F, E> {
    /// A request that was passed on.
    pub fn called(future: F) -> Self {
        let state = State::Called { future };
        Self { state }
    }

    /// A request that was refused.
    pub fn refused(error: impl Into<E>) -> Self {
        let error = Some(error.into());
        let state = State::Refused { error };
        Self { state }
    }
}

impl<F, T, E> Future for Refusable<F, E>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Called { future } => future.poll(cx),
            StateProj::Refused { error } => {
                Poll::Ready(Err(error.take().expect("a refusal is polled once")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    #[tokio::test]
    async fn is_the_answer_of_the_stage_below_or_the_refusal() {
        type Answer = std::future::Ready<Result<u8, &'static str>>;
        let called = |answer| Refusable::<Answer, &str>::called(ready(answer));
        assert_eq!(called(Ok(1)).await, Ok(1));
        assert_eq!(called(Err("below")).await, Err("below"));
        assert_eq!(
            Refusable::<Answer, _>::refused("refused").await,
            Err("refused")
        );
    }
}
