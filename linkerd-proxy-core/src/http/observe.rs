//! Observers of bodies: notified of each data frame and of the end.

mod request;
mod response;

use super::BodyError;
use http::HeaderMap;
pub(super) use request::RequestObservers;
pub use request::{ObserveRequest, ObservedRequest};
pub(super) use response::ResponseObservers;
pub use response::{ObserveResponse, ObservedResponse};
use std::cell::Cell;
use tokio::time::Instant;

/// The end of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyEnd<'a> {
    /// All of it has passed, with these trailers.
    Complete(Option<&'a HeaderMap>),
    /// It broke off.
    Failed(&'a BodyError),
    /// The receiver dropped it before its end.
    Dropped,
}

/// The time of an event. The clock is read when the first observer asks.
#[derive(Debug, Default)]
pub struct Now(Cell<Option<Instant>>);

impl Now {
    /// The time.
    pub fn get(&self) -> Instant {
        let now = self.0.get().unwrap_or_else(Instant::now);
        self.0.set(Some(now));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn observers_of_one_event_see_one_time() {
        let now = Now::default();
        let first = now.get();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(now.get(), first);
    }
}
