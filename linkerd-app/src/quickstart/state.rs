//! The endpoints in the proxy's `/state`.

use serde_json::Value;
use std::collections::BTreeMap;

/// State of an endpoint in the balancers of all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// `ready` if it is in all of them, else the first other word.
    pub(super) state: String,
    /// The mean of the load estimates.
    pub(super) estimate_ms: Option<f64>,
    /// Requests in flight.
    pub(super) in_flight: Option<u64>,
    pub(super) last_error: Option<String>,
}

/// The endpoints of the workers' balancers: objects that have an `endpoint` and a `state`.
pub(super) fn endpoints(document: &Value) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    collect(document, &mut found);
    found
        .into_iter()
        .map(|(endpoint, all)| (endpoint, Seen::merge(&all)))
        .collect()
}

fn collect(value: &Value, found: &mut BTreeMap<String, Vec<Seen>>) {
    match value {
        Value::Object(fields) => {
            if let (Some(Value::String(endpoint)), Some(Value::String(state))) =
                (fields.get("endpoint"), fields.get("state"))
            {
                let error = fields.get("last_error").and_then(Value::as_str);
                found.entry(endpoint.clone()).or_default().push(Seen {
                    state: state.clone(),
                    estimate_ms: fields.get("estimate_ms").and_then(Value::as_f64),
                    in_flight: fields.get("in_flight").and_then(Value::as_u64),
                    last_error: error.map(str::to_owned),
                });
            }
            let own = fields.iter().filter(|(section, _)| *section != CONTROLLERS);
            own.for_each(|(_, value)| collect(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

impl Seen {
    /// Its state, and the cause if it is not ready.
    pub(super) fn text(&self) -> String {
        match &self.last_error {
            Some(error) if !self.is_ready() => format!("{}: {error}", self.state),
            _ => self.state.clone(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == READY
    }

    fn merge(all: &[Self]) -> Self {
        let estimates: Vec<_> = all.iter().filter_map(|seen| seen.estimate_ms).collect();
        let mean = estimates.iter().sum::<f64>() / estimates.len() as f64;
        let other = all.iter().find(|seen| !seen.is_ready());
        Self {
            state: other.map_or(READY, |seen| &seen.state).to_owned(),
            estimate_ms: (!estimates.is_empty()).then_some(mean),
            in_flight: all
                .iter()
                .filter_map(|seen| seen.in_flight)
                .reduce(|a, b| a + b),
            last_error: all.iter().find_map(|seen| seen.last_error.clone()),
        }
    }
}

const READY: &str = "ready";

/// The section of the control plane's own balancers, which are not shown.
const CONTROLLERS: &str = "controllers";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn endpoints_are_found_wherever_they_are_and_workers_put_together() {
        let document = json!({
            "process": {"state": "not an endpoint"},
            "outbound": {"workers": [
                {"backends": [{"backend": "web", "balancer": {"endpoints": [
                    {"endpoint": "a:1", "state": "ready", "estimate_ms": 2.0, "in_flight": 1, "last_error": null},
                    {"endpoint": "b:1", "state": "ready"},
                ]}}]},
                {"backends": [{"backend": "web", "balancer": {"endpoints": [
                    {"endpoint": "a:1", "state": "backing off", "estimate_ms": 4.0, "in_flight": 2, "last_error": "refused"},
                ]}}]},
            ]},
        });
        let a = Seen {
            state: "backing off".into(),
            estimate_ms: Some(3.0),
            in_flight: Some(3),
            last_error: Some("refused".into()),
        };
        let b = Seen {
            state: "ready".into(),
            ..Seen::default()
        };
        let expected = BTreeMap::from([("a:1".into(), a), ("b:1".into(), b)]);
        assert_eq!(endpoints(&document), expected);
        assert!(endpoints(&json!({"outbound": {"error": "no answer"}})).is_empty());
    }
}
