//! The log of connections that cannot be accepted.

use super::is_descriptor_limit;
use std::{io, time::Duration};
use tokio::time::Instant;

/// Failures to accept connections. At most one line is logged every [`EVERY`]: when file descriptors have run out, accepting
/// fails a hundred times a second.
#[derive(Debug, Default)]
pub struct AcceptErrors {
    next: Option<Instant>,
    /// Failures since the last log line.
    unlogged: u64,
}

impl AcceptErrors {
    /// Logs a failure, if a line is due.
    pub fn log(&mut self, error: &io::Error) {
        let Some(unlogged) = self.due(Instant::now()) else {
            return;
        };
        match is_descriptor_limit(error) {
            true => tracing::warn!(
                %error,
                unlogged,
                "Server failed to accept connection: raise the limit of open files (ulimit -n, LimitNOFILE)"
            ),
            false => tracing::warn!(%error, unlogged, "Server failed to accept connection"),
        }
    }

    /// Notes a failure. If a line is due, returns the number of failures that were not logged since the last line.
    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.unlogged += 1;
            return None;
        }
        self.next = Some(now + EVERY);
        Some(std::mem::take(&mut self.unlogged))
    }
}

const EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_tells_of_all() {
        let mut errors = AcceptErrors::default();
        let start = Instant::now();
        assert_eq!(errors.due(start), Some(0));
        for _ in 0..100 {
            assert_eq!(errors.due(start + EVERY / 2), None);
        }
        assert_eq!(errors.due(start + EVERY), Some(100));
        assert_eq!(errors.due(start + EVERY * 3), Some(0));
    }
}
