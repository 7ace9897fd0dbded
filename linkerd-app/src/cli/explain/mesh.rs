//! Explanations by a mesh file, as a proxy with that control plane would give them.

use super::failure::Failure;
use crate::explain::{ExplainAnswer, ExplainQuery, Explanation, unknown_target};
use linkerd_api_client::convert::{client_policy, profile_update};
use linkerd_control::Mesh;
use linkerd_profiles::Discovered;
use std::{path::Path, sync::Arc};

/// Reads the file and explains the request.
pub(super) fn explain(file: &Path, query: &ExplainQuery) -> Result<ExplainAnswer, Failure> {
    let mesh = Mesh::read(file).map_err(|error| Failure::Usage(error.to_string()))?;
    let target = query.target.to_string();
    let Some((policy, profile)) = mesh.messages_of(&target) else {
        let unknown = unknown_target(&target, mesh.names(), UNKNOWN);
        return Ok(ExplainAnswer::UnknownTarget(unknown));
    };
    let discovered = Discovered {
        target: query.target.clone(),
        policy: Arc::new(client_policy(policy)),
        profile: Some(Arc::new(
            profile_update(profile, query.target.port()).profile,
        )),
    };
    let explanation = Explanation::new(query, &discovered);
    Ok(ExplainAnswer::Explained(explanation.document))
}

const UNKNOWN: &str = "is no service of the mesh file";
