//! The name of a route or of a rule.

use crate::mesh::form::FieldReader;
use crate::mesh::host_name::is_dns_name;
use crate::mesh::yaml::Node;

/// The name of a route or of a rule.
pub(super) fn name(r: &mut FieldReader, node: &Node) -> Option<String> {
    let name = r.text(node)?;
    if !is_dns_name(&name) {
        let reason = format!(
            "route name {name:?} is not a DNS name; use lower-case letters, digits and hyphens"
        );
        r.report(node.at, reason);
    }
    Some(name)
}
