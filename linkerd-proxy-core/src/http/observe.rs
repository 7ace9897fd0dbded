//! Observers of bodies: notified of each data frame and of the end.

mod request;
mod response;

use super::BodyError;
use http::HeaderMap;
pub(super) use request::RequestObservers;
pub use request::{ObserveRequest, ObservedRequest};
pub(super) use response::ResponseObservers;
pub use response::{ObserveResponse, ObservedResponse};
use std::{cell::Cell, time::Duration};
use tokio::time::Instant;

/// The end of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyEnd<'a> {
    /// The whole body has passed, with these trailers.
    Complete(Option<&'a HeaderMap>),
    /// The body broke off.
    Failed(&'a BodyError),
    /// The receiver dropped the body before its end.
    Dropped,
}

/// The time of an event. The clock is read when the first observer asks.
#[derive(Debug, Default)]
pub struct Now {
    time: Cell<Option<Instant>>,
    /// The last result of [`Now::since`], with its argument.
    since: Cell<Option<(Instant, Duration)>>,
}

impl Now {
    /// The time.
    pub fn get(&self) -> Instant {
        let now = self.time.get().unwrap_or_else(Instant::now);
        self.time.set(Some(now));
        now
    }

    /// The time since `start`. Most observers of an event ask with the same `start`, so that the result is kept.
    pub fn since(&self, start: Instant) -> Duration {
        if let Some((known, elapsed)) = self.since.get()
            && known == start
        {
            return elapsed;
        }
        let elapsed = self.get().saturating_duration_since(start);
        self.since.set(Some((start, elapsed)));
        elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn observers_of_one_event_see_one_time() {
        let now = Now::default();
        let first = now.get();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(now.get(), first);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_since_a_start_is_that_of_the_event() {
        let now = Now::default();
        let (early, late) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(3)).await;
        now.get();
        tokio::time::advance(Duration::from_secs(3)).await;
        for _ in 0..2 {
            assert_eq!(now.since(early), Duration::from_secs(3));
            assert_eq!(now.since(late), Duration::from_secs(2));
        }
        assert_eq!(now.since(late + Duration::from_secs(9)), Duration::ZERO);
    }
}
