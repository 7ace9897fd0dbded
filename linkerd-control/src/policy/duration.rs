use linkerd_api_proto::prost_types;
use std::time::Duration;

/// The wire duration; `None` beyond the wire format, such as for centuries.
pub(super) fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}
