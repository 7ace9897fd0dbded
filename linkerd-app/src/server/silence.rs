//! Destinations whose clients wait for the server to speak first, as those of SMTP and MySQL do.
//!
//! The proxy waits for the first silent client of such a destination until the detect timeout. For later clients, it connects to
//! the server at once, and the side that speaks first decides. A client that speaks HTTP is served as HTTP even then.

use linkerd_proxy_core::{
    Error,
    transport::{Detected, Duplex},
};
use std::{
    cell::RefCell, collections::HashMap, future::poll_fn, hash::Hash, task::Poll, time::Duration,
};
use tokio::time::Instant;

/// The destinations of one worker with silent clients, and the time until which silence is expected.
///
/// - **Bounds**: 1,024 destinations, of which the oldest is forgotten first; ten minutes each.
#[derive(Debug)]
pub struct SilentDestinations<D>(RefCell<HashMap<D, Instant>>);

/// The side of a connection with a silent client that has sent the first bytes, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSpeaker {
    /// The server.
    Server,
    /// The client, in this protocol.
    Client(Detected),
}

impl FirstSpeaker {
    /// The protocol of the connection.
    pub fn protocol(self) -> Detected {
        match self {
            Self::Server => Detected::Opaque,
            Self::Client(protocol) => protocol,
        }
    }

    /// The label `outcome` of the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Server => "server_first",
            Self::Client(Detected::Opaque) => "client_opaque",
            Self::Client(Detected::Http1 | Detected::Http2) => "client_http",
        }
    }
}

impl<D: Clone + Eq + Hash> SilentDestinations<D> {
    /// Notes a client that was silent for the detect timeout, or whose server spoke first. `true` if silence was not expected.
    pub fn was_silent(&self, destination: &D, now: Instant) -> bool {
        let mut all = self.0.borrow_mut();
        if all.len() >= LIMIT && !all.contains_key(destination) {
            let oldest = all.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(destination, _)| destination.clone()) {
                all.remove(&oldest);
            }
        }
        let before = all.insert(destination.clone(), now + EXPECTED_FOR);
        before.is_none_or(|until| until <= now)
    }

    /// Waits for the first bytes of a client or of its connected server, and notes the first speaker. `detect` returns the
    /// protocol of a client that has begun, or `None` if it is still silent after the detect timeout.
    pub async fn first_speaker<C: Duplex>(
        &self,
        destination: &D,
        client: &mut C,
        server: &mut impl Duplex,
        mut detect: impl AsyncFnMut(&mut C) -> Result<Option<Detected>, Error>,
    ) -> Result<FirstSpeaker, Error> {
        loop {
            if server_speaks_first(client, server).await {
                self.was_silent(destination, Instant::now());
                return Ok(FirstSpeaker::Server);
            }
            if let Some(protocol) = detect(client).await? {
                self.has_spoken(destination);
                return Ok(FirstSpeaker::Client(protocol));
            }
        }
    }

    /// Notes a client that spoke first.
    pub fn has_spoken(&self, destination: &D) {
        self.0.borrow_mut().remove(destination);
    }

    /// Whether clients of a destination are expected to be silent.
    pub fn is_expected(&self, destination: &D, now: Instant) -> bool {
        self.0
            .borrow()
            .get(destination)
            .is_some_and(|until| now < *until)
    }

    /// The destinations, for `/state`.
    pub fn inspect(&self, show: impl Fn(&D) -> String) -> serde_json::Value {
        let now = Instant::now();
        let all = self.0.borrow();
        let expected = all.iter().filter(|(_, until)| **until > now);
        let shown = expected.map(|(destination, until)| {
            let left = until.saturating_duration_since(now).as_secs();
            serde_json::json!({ "destination": show(destination), "seconds_left": left })
        });
        serde_json::json!({ "limit": LIMIT, "expected": shown.collect::<Vec<_>>() })
    }
}

impl<D> Default for SilentDestinations<D> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// Waits for either side's first bytes, or its end, without reading them.
///
/// Cancel safe. A server that speaks wins, as its client would have been silent.
async fn server_speaks_first(client: &mut impl Duplex, server: &mut impl Duplex) -> bool {
    poll_fn(|cx| match server.poll_received(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => client.poll_received(cx).map(|()| false),
    })
    .await
}

/// The time for which silence is expected after a silent client.
const EXPECTED_FOR: Duration = Duration::from_secs(600);
/// More than the dependencies of a workload.
const LIMIT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_expected_for_a_while_or_until_a_client_speaks() {
        let silent = SilentDestinations::default();
        let now = Instant::now();
        assert!(!silent.is_expected(&"smtp", now));
        assert!(silent.was_silent(&"smtp", now));
        assert!(!silent.is_expected(&"mysql", now));
        let later = now + EXPECTED_FOR / 2;
        assert!(silent.is_expected(&"smtp", later));
        assert!(!silent.was_silent(&"smtp", later));
        let much_later = later + EXPECTED_FOR;
        assert!(!silent.is_expected(&"smtp", much_later));
        assert!(silent.was_silent(&"smtp", much_later));
        silent.has_spoken(&"smtp");
        assert!(!silent.is_expected(&"smtp", much_later));
    }

    #[test]
    fn the_oldest_destination_is_forgotten_first() {
        let silent = SilentDestinations::default();
        let now = Instant::now();
        for number in 0..=LIMIT {
            silent.was_silent(&number, now + Duration::from_millis(number as u64));
        }
        assert!(!silent.is_expected(&0, now));
        assert!(silent.is_expected(&1, now) && silent.is_expected(&LIMIT, now));
        assert_eq!(silent.0.borrow().len(), LIMIT);
    }
}
