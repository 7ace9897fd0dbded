//! The age of discovered state, and whether the control plane still confirms it.

use super::{Event, Status};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use tokio::time::Instant;

/// The history of one subscription.
///
/// Serialised for `/state`, with ages in milliseconds instead of instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Freshness {
    /// Applied updates.
    pub generation: u64,
    /// Time of the last applied update.
    pub received_at: Option<Instant>,
    /// Whether a stream is open.
    pub connected: bool,
    /// Time when the last stream closed, while none is open.
    pub disconnected_since: Option<Instant>,
    /// Error of the last stream or call. Cleared by the next message.
    pub last_error: Option<String>,
    /// Streams opened so far.
    pub streams_opened: u64,
    /// The control plane refused for good: no stream is open or will be.
    pub rejected: bool,
}

impl Freshness {
    /// Records an event of the stream.
    pub fn observe<T>(&mut self, event: &Event<T>, now: Instant) {
        match event {
            Event::Opened => {
                self.connected = true;
                self.disconnected_since = None;
                self.rejected = false;
                self.streams_opened += 1;
            }
            Event::Item(_) => self.last_error = None,
            Event::Closed(status) => self.closed(status.as_ref(), now),
            Event::Rejected(status) => {
                self.closed(Some(status), now);
                self.rejected = true;
            }
        }
    }

    /// Records an applied update.
    pub fn applied(&mut self, now: Instant) {
        self.generation += 1;
        self.received_at = Some(now);
    }

    /// Whether there is state that the control plane cannot renew at present.
    ///
    /// Such state must not be evicted: it could not be fetched again.
    pub fn is_orphaned(&self) -> bool {
        self.generation > 0 && !self.connected && !self.rejected
    }

    fn closed(&mut self, status: Option<&Status>, now: Instant) {
        self.connected = false;
        self.disconnected_since.get_or_insert(now);
        if let Some(status) = status {
            self.last_error = Some(status.to_string());
        }
    }
}

impl Serialize for Freshness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let now = Instant::now();
        let millis = |at: Option<Instant>| {
            at.map(|at| {
                u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX)
            })
        };
        let mut state = serializer.serialize_struct("Freshness", 7)?;
        state.serialize_field("generation", &self.generation)?;
        state.serialize_field("age_ms", &millis(self.received_at))?;
        state.serialize_field("connected", &self.connected)?;
        state.serialize_field("disconnected_ms", &millis(self.disconnected_since))?;
        state.serialize_field("last_error", &self.last_error)?;
        state.serialize_field("streams_opened", &self.streams_opened)?;
        state.serialize_field("rejected", &self.rejected)?;
        state.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscription::Code;

    #[test]
    fn state_is_orphaned_while_the_control_plane_is_away() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        let closed =
            || Event::<()>::Closed(Some(Status::new(Code::Unavailable, "connection refused")));

        freshness.observe(&closed(), now);
        assert!(!freshness.is_orphaned(), "nothing is held yet");
        freshness.observe(&Event::<()>::Opened, now);
        freshness.observe(&Event::Item(()), now);
        freshness.applied(now);
        assert!(!freshness.is_orphaned());
        freshness.observe(&closed(), now);
        assert!(freshness.is_orphaned());
        assert_eq!(
            freshness.last_error.as_deref(),
            Some("Unavailable: connection refused")
        );
        freshness.observe(&Event::<()>::Opened, now);
        assert!(!freshness.is_orphaned());
    }

    #[test]
    fn a_refusal_orphans_nothing() {
        let now = Instant::now();
        let mut freshness = Freshness::default();
        freshness.applied(now);
        freshness.observe(
            &Event::<()>::Rejected(Status::new(Code::NotFound, "gone")),
            now,
        );
        assert!(!freshness.is_orphaned());
    }

    #[test]
    fn is_shown_with_ages() {
        let shown = serde_json::to_value(Freshness::default()).unwrap();
        assert_eq!(shown["generation"], 0);
        assert_eq!(shown["age_ms"], serde_json::Value::Null);
        assert_eq!(shown["connected"], false);
    }
}
