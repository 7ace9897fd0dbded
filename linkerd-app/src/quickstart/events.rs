//! Recent events.

use super::state::Seen;
use linkerd_control::{AppliedMesh, MeshLoad};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The last events, each with the time since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    last: VecDeque<String>,
    /// Number of events not taken yet.
    new: usize,
    endpoints: BTreeMap<String, Seen>,
}

impl Events {
    pub(super) fn note(&mut self, at: Duration, event: impl AsRef<str>) {
        for line in event.as_ref().lines() {
            let at = at.as_secs();
            self.last
                .push_back(format!("{:02}:{:02}  {line}", at / 60, at % 60));
            self.new += 1;
        }
        while self.last.len() > SHOWN {
            self.last.pop_front();
        }
        self.new = self.new.min(self.last.len());
    }

    /// Records a load of the mesh file.
    pub(super) fn loaded(&mut self, at: Duration, load: &MeshLoad) {
        match &load.outcome {
            Ok(AppliedMesh {
                services,
                endpoints,
            }) => self.note(
                at,
                format!("mesh file loaded: {services} services, {endpoints} endpoints"),
            ),
            Err(error) => self.note(
                at,
                format!("mesh file refused, the last good one stays:\n{error}"),
            ),
        }
    }

    /// Records the proxy's view of the endpoints; each change is an event.
    pub(super) fn observe(&mut self, at: Duration, endpoints: BTreeMap<String, Seen>) {
        let before = std::mem::replace(&mut self.endpoints, endpoints.clone());
        for endpoint in before.keys().filter(|key| !endpoints.contains_key(*key)) {
            self.note(at, format!("{endpoint} is gone from the balancer"));
        }
        for (endpoint, now) in endpoints {
            let was_ready = before.get(&endpoint).map(Seen::is_ready);
            if was_ready == Some(now.is_ready()) {
                continue;
            }
            let why = now.last_error.as_ref().filter(|_| !now.is_ready());
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            self.note(at, format!("{endpoint} is {}{why}", now.state));
        }
    }

    /// The last observed endpoints.
    pub(super) fn endpoints(&self) -> &BTreeMap<String, Seen> {
        &self.endpoints
    }

    /// The last events, oldest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }

    /// Takes the new events.
    pub(super) fn take_new(&mut self) -> Vec<String> {
        let new = std::mem::take(&mut self.new);
        let old = self.last.len() - new;
        self.last.iter().skip(old).cloned().collect()
    }
}

/// As many as a tall terminal has rows.
const SHOWN: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: &str, error: Option<&str>) -> Seen {
        Seen {
            state: state.into(),
            last_error: error.map(str::to_owned),
            ..Seen::default()
        }
    }

    fn view(endpoints: &[(&str, Seen)]) -> BTreeMap<String, Seen> {
        endpoints
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect()
    }

    #[test]
    fn changes_of_endpoints_are_told_once() {
        let mut events = Events::default();
        let at = Duration::from_secs;
        events.observe(
            at(1),
            view(&[("a", seen("ready", None)), ("b", seen("connecting", None))]),
        );
        events.observe(
            at(2),
            view(&[
                ("a", seen("ready", None)),
                ("b", seen("ready", Some("old"))),
            ]),
        );
        events.observe(at(61), view(&[("a", seen("backing off", Some("refused")))]));
        events.observe(at(62), view(&[("a", seen("connecting", None))]));
        let lines: Vec<_> = events.lines().collect();
        assert_eq!(
            lines,
            [
                "00:01  a is ready",
                "00:01  b is connecting",
                "00:02  b is ready",
                "01:01  b is gone from the balancer",
                "01:01  a is backing off (refused)",
            ]
        );
    }

    #[test]
    fn only_the_last_ones_are_kept_and_each_is_taken_once() {
        let mut events = Events::default();
        events.note(Duration::ZERO, "a\nb");
        assert_eq!(events.take_new(), ["00:00  a", "00:00  b"]);
        assert!(events.take_new().is_empty());
        (0..100).for_each(|n| events.note(Duration::ZERO, n.to_string()));
        assert_eq!(events.lines().count(), SHOWN);
        assert_eq!(events.take_new().last().unwrap(), "00:00  99");
    }
}
