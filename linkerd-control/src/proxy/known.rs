//! The content of the control plane that a proxy knows, by its `/state`.

use crate::lookups::LookupKind;
use serde_json::Value;

/// The addresses of a destination, sorted; `None` while they are not known.
pub(super) fn endpoints(state: &Value, destination: &str) -> Option<Vec<String>> {
    let found = entry(state, LookupKind::Destination, destination)?;
    let addrs = found["endpoints"].as_array()?.iter();
    let mut addrs: Vec<_> = addrs
        .filter_map(|endpoint| endpoint["addr"].as_str().map(str::to_owned))
        .collect();
    addrs.sort();
    Some(addrs)
}

/// The number of updates of a look-up that were applied; `None` if there is no such look-up.
pub(super) fn updates(state: &Value, kind: LookupKind, target: &str) -> Option<u64> {
    let freshness = match kind {
        LookupKind::Destination | LookupKind::Server => "freshness",
        LookupKind::Profile => "profile_freshness",
        LookupKind::Policy => "policy_freshness",
    };
    entry(state, kind, target)?[freshness]["generation"].as_u64()
}

/// The targets of all look-ups of a kind.
pub(super) fn targets(state: &Value, kind: LookupKind) -> Vec<String> {
    let (entries, key) = table(state, kind);
    let entries = entries.as_array().into_iter().flatten();
    entries.map(|entry| name(&entry[key])).collect()
}

fn entry<'a>(state: &'a Value, kind: LookupKind, target: &str) -> Option<&'a Value> {
    let (entries, key) = table(state, kind);
    entries
        .as_array()?
        .iter()
        .find(|it| name(&it[key]) == target)
}

fn table(state: &Value, kind: LookupKind) -> (&Value, &'static str) {
    match kind {
        LookupKind::Destination => (&state["discovery"]["destinations"], "destination"),
        LookupKind::Profile | LookupKind::Policy => (&state["policies"]["targets"], "target"),
        LookupKind::Server => (&state["server_policies"]["ports"], "port"),
    }
}

/// A target as look-ups have it: a port is `:port`.
fn name(target: &Value) -> String {
    match target {
        Value::String(name) => name.clone(),
        port => format!(":{port}"),
    }
}
