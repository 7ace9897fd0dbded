//! A race of two attempts for the first response.

use futures::future::{Either, select};
use std::pin::Pin;
use tokio::time::{Instant, sleep_until};

/// The attempt that gave the result of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Winner {
    /// The first.
    First,
    /// The hedge.
    Second,
}

/// The output of a future, if it comes before `at`.
pub async fn before<F: Future>(at: Instant, mut future: Pin<&mut F>) -> Option<F::Output> {
    let timer = Box::pin(sleep_until(at));
    match select(future.as_mut(), timer).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// The first success, or else the last failure.
pub async fn race<F, T, E>(first: Pin<&mut F>, second: Pin<&mut F>) -> (Result<T, E>, Winner)
where
    F: Future<Output = Result<T, E>>,
{
    match select(first, second).await {
        Either::Left((Ok(output), _)) => (Ok(output), Winner::First),
        Either::Left((Err(_), second)) => (second.await, Winner::Second),
        Either::Right((Ok(output), _)) => (Ok(output), Winner::Second),
        Either::Right((Err(_), first)) => (first.await, Winner::First),
    }
}
