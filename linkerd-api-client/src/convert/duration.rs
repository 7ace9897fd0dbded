//! Durations.

use linkerd_api_proto::prost_types;
use std::time::Duration;

/// A duration that is not negative. `None` if the wire value is negative, has a second or more of nanoseconds, or is longer
/// than the format allows.
pub(super) fn duration(wire: &prost_types::Duration) -> Option<Duration> {
    let secs = u64::try_from(wire.seconds).ok()?;
    let nanos = u32::try_from(wire.nanos).ok()?;
    (secs <= MAX_SECS && nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

/// The bound of the format, about 10,000 years. Longer durations could overflow the clock when added to the present time.
const MAX_SECS: u64 = 315_576_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_not_negative_and_within_the_format() {
        let wire = |seconds, nanos| duration(&prost_types::Duration { seconds, nanos });
        assert_eq!(wire(1, 500), Some(Duration::new(1, 500)));
        assert_eq!(wire(-1, 0), None);
        assert_eq!(wire(0, -1), None);
        assert_eq!(wire(0, i32::MAX), None);
        assert!(wire(315_576_000_000, 0).is_some());
        assert_eq!(wire(315_576_000_001, 0), None);
        assert_eq!(wire(i64::MAX, 0), None);
    }
}
