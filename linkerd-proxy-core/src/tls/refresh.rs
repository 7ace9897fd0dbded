//! The time of a certificate's renewal.

use std::time::{Duration, SystemTime};

/// Bounds of the time between two requests for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshBounds {
    /// The shortest time.
    pub min: Duration,
    /// The longest time.
    pub max: Duration,
}

impl RefreshBounds {
    /// The time from `now` until the next request: seven tenths of the certificate's remaining validity, within the bounds.
    /// After a failed request, the previous certificate counts; `None` if there was none.
    pub fn next(&self, valid_until: Option<SystemTime>, now: SystemTime) -> Duration {
        let left = valid_until.and_then(|until| until.duration_since(now).ok());
        let wanted = left.map_or(self.min, |left| left.mul_f64(0.7));
        wanted.min(self.max).max(self.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_after_seven_tenths_of_its_time() {
        let secs = Duration::from_secs;
        let bounds = RefreshBounds {
            min: secs(10),
            max: secs(3600),
        };
        let now = SystemTime::UNIX_EPOCH + secs(1_000_000);
        assert_eq!(bounds.next(Some(now + secs(100)), now), secs(70));
        assert_eq!(bounds.next(Some(now + secs(86_400)), now), secs(3600));
        assert_eq!(bounds.next(Some(now + secs(1)), now), secs(10));
        assert_eq!(bounds.next(Some(now - secs(1)), now), secs(10));
        assert_eq!(bounds.next(None, now), secs(10));
    }
}
