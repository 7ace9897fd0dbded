//! Waiting, always with a deadline.

use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// The general deadline, long enough for a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// The output of a future that must complete soon.
#[track_caller]
pub fn soon<F: Future>(what: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        match timeout(SOON, what).await {
            Ok(output) => output,
            Err(_) => panic!("not within {SOON:?} at {caller}"),
        }
    }
}

/// Polls `check` until it returns a value.
///
/// # Panics
///
/// At the deadline.
#[track_caller]
pub fn eventually<T, F: Future<Output = Option<T>>>(
    within: Duration,
    what: &str,
    check: impl FnMut() -> F,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        match ever(within, check).await {
            Some(found) => found,
            None => panic!("not within {within:?}: {what} ({caller})"),
        }
    }
}

/// Polls `check` until it returns a value, or the time is over.
pub async fn ever<T, F: Future<Output = Option<T>>>(
    within: Duration,
    mut check: impl FnMut() -> F,
) -> Option<T> {
    let deadline = Instant::now() + within;
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Ok(Some(found)) = tokio::time::timeout_at(deadline, check()).await {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
    }
}

const POLL: Duration = Duration::from_millis(10);
