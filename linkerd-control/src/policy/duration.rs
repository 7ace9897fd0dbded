use linkerd_api_proto::prost_types;
use std::time::Duration;

/// `None` for a duration beyond the wire format, such as centuries.
pub(super) fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}
