//! A limit of log lines that peers can provoke.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Lets [`MAX_LINES`] log lines of one kind through in a second, and counts the others: a persistent client must not fill the
/// log.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<LogSecond>);

#[derive(Debug, Default)]
struct LogSecond {
    since: Option<Instant>,
    lines: usize,
    unreported: u64,
}

impl LogLimit {
    /// The number of lines that were left out since the last one; `None` if there may be no line now.
    pub fn take(&self, now: Instant) -> Option<u64> {
        let mut second = self.0.lock();
        let since = *second.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= SECOND {
            (second.since, second.lines) = (Some(now), 0);
        }
        if second.lines == MAX_LINES {
            second.unreported += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.unreported))
    }
}

/// Enough to show the peer.
const MAX_LINES: usize = 10;

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_insists_does_not_fill_the_log() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let lines = (0..100).filter_map(|_| limit.take(start));
        assert_eq!(lines.collect::<Vec<_>>(), [0; MAX_LINES]);
        assert_eq!(limit.take(start + SECOND), Some(90));
    }
}
