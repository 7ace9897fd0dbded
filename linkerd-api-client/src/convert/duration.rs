//! Durations.

use linkerd_api_proto::prost_types;
use std::time::Duration;

/// A duration that is not negative. `None` if it is, or if its nanoseconds exceed a second.
pub(super) fn duration(wire: &prost_types::Duration) -> Option<Duration> {
    let secs = u64::try_from(wire.seconds).ok()?;
    let nanos = u32::try_from(wire.nanos).ok()?;
    (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_not_negative() {
        let wire = |seconds, nanos| duration(&prost_types::Duration { seconds, nanos });
        assert_eq!(wire(1, 500), Some(Duration::new(1, 500)));
        assert_eq!(wire(-1, 0), None);
        assert_eq!(wire(0, -1), None);
        assert_eq!(wire(0, i32::MAX), None);
    }
}
