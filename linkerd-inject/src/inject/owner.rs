//! The label with the name of the pods' owner, such as `linkerd.io/proxy-deployment: web`.

use crate::{annotations::OWNER_PREFIX, workload::Workload};

/// The label of the owner: none for a bare pod and for a generated name. The error is the reason why an owner has none.
pub(super) fn owner_label(workload: &Workload<'_>) -> Result<Option<(String, String)>, String> {
    let owner = workload.name.as_ref().filter(|_| workload.kind != "Pod");
    let Some(name) = owner else {
        return Ok(None);
    };
    let key = format!("{OWNER_PREFIX}{}", workload.kind.to_lowercase());
    match name.len() <= MAX_LABEL {
        true => Ok(Some((key, name.clone()))),
        // A shortened name would be that of another workload. Linkerd's injector sets it whole, and the pods are refused.
        false => Err(format!(
            "its name is longer than a label's value, {MAX_LABEL} characters: its pods have no label {key}"
        )),
    }
}

/// The longest value of a label. Names of most objects may have 253 characters.
const MAX_LABEL: usize = 63;
