//! The lines of the log about a lost stream.

use linkerd_proxy_core::subscription::{RateLimit, Status};
use std::time::Duration;
use tokio::time::Instant;

/// Decides whether the loss of a stream is a warning: the first one is, and the attempts after it are not until a stream
/// is open. The log of the controller's connections repeats the cause.
///
/// A stream that ends with its connection, as when the controller is replaced, is one only if no stream is open soon.
pub(super) struct StreamLoss {
    is_reported: bool,
    /// An end with the connection, and the time at which it becomes a warning.
    ended: Option<(Instant, Status)>,
    /// For streams that open and are lost at once.
    warnings: RateLimit,
}

impl StreamLoss {
    pub(super) fn new() -> Self {
        Self {
            is_reported: false,
            ended: None,
            warnings: RateLimit::new(WARNING_INTERVAL),
        }
    }

    /// The stream has failed. Returns the number of losses without a warning since the last one, if this one is a warning.
    pub(super) fn lost(&mut self, status: &Status, now: Instant) -> Option<u64> {
        if self.is_reported {
            return None;
        }
        if status.is_connection_end {
            self.ended
                .get_or_insert_with(|| (now + REPLACED_WITHIN, status.clone()));
            return None;
        }
        self.warn(now)
    }

    /// The time at which the end of a stream becomes a warning, if no stream is open by then.
    pub(super) fn due(&self) -> Option<Instant> {
        self.ended.as_ref().map(|(due, _)| *due)
    }

    /// No stream is open at the time that is due. Returns the status of the lost one, and the number as [`lost`](Self::lost)
    /// does.
    pub(super) fn late(&mut self, now: Instant) -> Option<(Status, u64)> {
        let (_, status) = self.ended.take()?;
        self.warn(now).map(|unreported| (status, unreported))
    }

    /// A stream is open. Returns whether that ends a reported loss.
    pub(super) fn opened(&mut self) -> bool {
        self.ended = None;
        std::mem::take(&mut self.is_reported)
    }

    fn warn(&mut self, now: Instant) -> Option<u64> {
        self.ended = None;
        let unreported = self.warnings.take(now);
        self.is_reported = unreported.is_some();
        unreported
    }
}

/// Time for another controller to take the place of one that has ended its connections. A restart of a few replicas, one after
/// the other, moves the streams within milliseconds.
const REPLACED_WITHIN: Duration = Duration::from_secs(2);

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
    fn the_end_of_the_connection_is_a_warning_only_if_no_stream_is_open_soon() {
        let start = Instant::now();
        let mut loss = StreamLoss::new();
        let end = Status::connection_end("broken pipe");
        assert_eq!(loss.lost(&end, start), None);
        assert_eq!(loss.due(), Some(start + REPLACED_WITHIN));
        assert!(!loss.opened(), "it was not reported");
        assert_eq!(loss.due(), None);

        assert_eq!(loss.lost(&end, start), None);
        let late = start + REPLACED_WITHIN;
        assert_eq!(loss.late(late), Some((end.clone(), 0)));
        assert_eq!(loss.due(), None);
        assert_eq!(loss.lost(&failed(), late), None, "it is reported");
        assert!(loss.opened());

        let mut loss = StreamLoss::new();
        assert_eq!(loss.lost(&end, start), None);
        assert_eq!(
            loss.lost(&failed(), start),
            Some(0),
            "the next attempt fails"
        );
        assert_eq!(loss.due(), None);
    }
}
