//! Explanations of a running proxy: from the policies that it holds.

use super::{ExplainAnswer, Explanation, query::ExplainQuery};
use crate::config::distance;
use linkerd_profiles::{DiscoveryState, KnownTarget, Policies};
use serde_json::{Value, json};

/// Explains a request to a target that the proxy knows. `Err` is the answer for any other.
pub fn explain_known(
    policies: &Policies,
    query: &ExplainQuery,
) -> Result<Explanation, ExplainAnswer> {
    let Some(known) = policies.peek(&query.target) else {
        let targets = policies.targets();
        let targets = targets.iter().map(ToString::to_string).collect();
        let unknown = unknown_target(&query.target.to_string(), targets, UNKNOWN);
        return Err(ExplainAnswer::UnknownTarget(unknown));
    };
    let refused = |reason: String| {
        let mut document = json!({
            "target": query.target.to_string(),
            "refused": reason,
        });
        add_freshness(&mut document, &known);
        Err(ExplainAnswer::Explained(document))
    };
    match &known.state {
        DiscoveryState::Pending => refused("the control plane has not answered yet".to_owned()),
        DiscoveryState::Failed(error) => refused(error.to_string()),
        DiscoveryState::Ready(discovered) => {
            let mut explanation = Explanation::new(query, discovered);
            add_freshness(&mut explanation.document, &known);
            Ok(explanation)
        }
    }
}

/// The answer for a target that is not known, with the known ones, the nearest name first.
pub fn unknown_target(target: &str, known: Vec<String>, why: &str) -> Value {
    let count = known.len();
    let compared = known.into_iter().take(MAX_COMPARED);
    let mut nearest: Vec<_> = compared
        .map(|name| (distance(target, &name), name))
        .collect();
    nearest.sort();
    let nearest = nearest.into_iter().take(MAX_NAMED);
    json!({
        "error": format!("{target} {why}"),
        "target": target,
        "known_targets": nearest.map(|(_, name)| name).collect::<Vec<_>>(),
        "known_targets_count": count,
    })
}

fn add_freshness(document: &mut Value, known: &KnownTarget) {
    document["policy"]["freshness"] = json!(known.policy_freshness);
    if !matches!(document.get("profile"), None | Some(Value::Null)) {
        document["profile"]["freshness"] = json!(known.profile_freshness);
    }
}

const UNKNOWN: &str = "is not in use: no connection or request was for it lately; ask the control plane for it (discover=1), \
     send it a request first, or name the target of a redirected connection by its address, such as 10.0.0.1:80";

/// The names that are compared; a proxy may know 10,000 targets.
const MAX_COMPARED: usize = 1_000;

/// The names that are shown.
const MAX_NAMED: usize = 20;
