//! Connection attempts without an answer.

use futures::{
    future::Either,
    stream::{FuturesUnordered, StreamExt},
};
use std::{io, pin::pin, time::Duration};
use tokio::time::timeout;

/// Dials, and makes a parallel attempt after each `pause` without an answer, [`ATTEMPTS`] in all. The first answer decides.
///
/// The system sends a lost SYN again after a second (RFC 6298, 2.1). A pod's connect timeout is not longer, so that a single
/// lost packet would fail the request. A parallel attempt that fails for lack of a descriptor or a port is ignored while
/// another is pending. No time limit. Cancel safe.
pub(super) async fn dial_again<T, F>(pause: Duration, dial: impl Fn() -> F) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let mut first = pin!(dial());
    match timeout(pause, first.as_mut()).await {
        Ok(answer) => answer,
        // In a box: nearly all connections are made within the first pause.
        Err(_) => Box::pin(dial_beside(first.as_mut(), pause, dial)).await,
    }
}

async fn dial_beside<T, F>(
    first: impl Future<Output = io::Result<T>>,
    pause: Duration,
    dial: impl Fn() -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let first = pin!(first);
    let mut attempts: FuturesUnordered<_> = [Either::Left(first)].into_iter().collect();
    for _ in 1..ATTEMPTS {
        attempts.push(Either::Right(Box::pin(dial())));
        if let Ok(answer) = timeout(pause, first_answer(&mut attempts)).await {
            return answer;
        }
    }
    first_answer(&mut attempts).await
}

/// Waits for a connection, a refusal, or the failure of the last attempt.
async fn first_answer<T, F>(attempts: &mut FuturesUnordered<F>) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        let answer = attempts.next().await.expect("one is under way");
        let decides = match &answer {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        };
        if decides || attempts.is_empty() {
            return answer;
        }
    }
}

/// The most attempts in parallel.
const ATTEMPTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::{Instant, sleep};

    const PAUSE: Duration = Duration::from_millis(300);

    /// The answer to an attempt, after this many milliseconds.
    type Answer = (u64, Result<(), io::ErrorKind>);

    const LOST: Answer = (60_000, Ok(()));

    /// Dials with these answers to the attempts in turn. Returns the result, its time, and the number of attempts.
    async fn dial(answers: &[Answer]) -> (Result<usize, io::ErrorKind>, u128, usize) {
        let (made, start) = (Cell::new(0), Instant::now());
        let dialled = dial_again(PAUSE, || {
            let number = made.replace(made.get() + 1);
            let (delay, answer) = answers[number];
            async move {
                sleep(Duration::from_millis(delay)).await;
                answer.map(|()| number).map_err(io::Error::from)
            }
        });
        let result = dialled.await.map_err(|error| error.kind());
        (result, start.elapsed().as_millis(), made.get())
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_is_answered_soon_is_the_only_one() {
        assert_eq!(dial(&[(299, Ok(()))]).await, (Ok(0), 299, 1));
        let refused = io::ErrorKind::ConnectionRefused;
        assert_eq!(dial(&[(5, Err(refused))]).await, (Err(refused), 5, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_decides_whichever_attempt_has_it() {
        assert_eq!(dial(&[LOST, (1, Ok(()))]).await, (Ok(1), 301, 2));
        assert_eq!(dial(&[(310, Ok(())), LOST]).await, (Ok(0), 310, 2));
        assert_eq!(dial(&[LOST, LOST, (1, Ok(()))]).await, (Ok(2), 601, 3));
        assert_eq!(dial(&[LOST, (700, Ok(())), LOST]).await, (Ok(1), 1_000, 3));
        let refused = io::ErrorKind::ConnectionRefused;
        let answers = [LOST, (1, Err(refused))];
        assert_eq!(dial(&answers).await, (Err(refused), 301, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_only_other_attempts_lack_does_not_matter() {
        let none = (0, Err(io::ErrorKind::AddrNotAvailable));
        assert_eq!(dial(&[(950, Ok(())), none, none]).await, (Ok(0), 950, 3));
        let unreachable = io::ErrorKind::HostUnreachable;
        let answers = [(950, Err(unreachable)), none, none];
        assert_eq!(dial(&answers).await, (Err(unreachable), 950, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_answers() {
        let dialled = timeout(Duration::from_secs(1), dial(&[LOST, LOST, LOST])).await;
        assert!(dialled.is_err(), "more than three are not made");
    }
}
