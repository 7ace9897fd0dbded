//! The lines of the log about a lost stream.

use linkerd_proxy_core::subscription::{RateLimit, Status};
use std::time::Duration;
use tokio::time::Instant;

/// Decides whether the loss of a stream is a warning: the first one is, and the attempts after it are not until a stream
/// is open. The log of the controller's connections repeats the cause.
///
/// A stream that ends with its connection is none, as when the controller is replaced: if no other controller is there, the
/// next attempt fails, and that is the warning.
pub(super) struct StreamLoss {
    is_reported: bool,
    /// For streams that open and are lost at once.
    warnings: RateLimit,
}

impl StreamLoss {
    pub(super) fn new() -> Self {
        Self {
            is_reported: false,
            warnings: RateLimit::new(WARNING_INTERVAL),
        }
    }

    /// The stream has failed. Returns the number of losses without a warning since the last one, if this one is a warning.
    pub(super) fn lost(&mut self, status: &Status, now: Instant) -> Option<u64> {
        if self.is_reported || status.is_connection_end {
            return None;
        }
        let unreported = self.warnings.take(now);
        self.is_reported = unreported.is_some();
        unreported
    }

    /// A stream is open. Returns whether that ends a reported loss.
    pub(super) fn opened(&mut self) -> bool {
        std::mem::take(&mut self.is_reported)
    }
}

/// The least time between warnings about one stream.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::subscription::Code;

    fn failed() -> Status {
        Status::new(Code::Unavailable, "connection refused")
    }

    #[test]
    fn a_controller_that_is_dead_for_an_hour_is_one_warning_and_its_return_one_line() {
        let start = Instant::now();
        let mut loss = StreamLoss::new();
        let lost = (0..3600)
            .filter_map(|second| loss.lost(&failed(), start + Duration::from_secs(second)));
        assert_eq!(lost.collect::<Vec<_>>(), [0]);
        assert!(loss.opened());
        assert!(!loss.opened());
    }

    #[test]
    fn a_stream_that_opens_and_is_lost_at_once_is_a_warning_a_minute() {
        let start = Instant::now();
        let mut loss = StreamLoss::new();
        let lost = (0..120).filter_map(|second| {
            let lost = loss.lost(&failed(), start + Duration::from_secs(second));
            assert_eq!(loss.opened(), lost.is_some());
            lost
        });
        assert_eq!(lost.collect::<Vec<_>>(), [0, 59]);
    }
    #[test]
    fn the_end_of_the_connection_is_no_warning_and_a_failed_attempt_after_it_is() {
        let start = Instant::now();
        let mut loss = StreamLoss::new();
        let end = Status::connection_end("broken pipe");
        assert_eq!(loss.lost(&end, start), None);
        assert!(!loss.opened());
        assert_eq!(loss.lost(&end, start), None);
        assert_eq!(loss.lost(&failed(), start), Some(0));
        assert!(loss.opened());
    }
}
