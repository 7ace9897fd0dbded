//! Host names of a mesh file.

use super::form::FieldReader;
use super::yaml::Node;

/// A host name, or a suffix with `*.`.
pub(super) fn hostname(r: &mut FieldReader, node: &Node) -> Option<String> {
    let text = r.text(node)?;
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    if is_dns_name(name.strip_prefix("*.").unwrap_or(&name)) {
        return Some(name);
    }
    let reason = format!(
        "{text:?} is not a host name; write it without a port, such as web.local or *.local"
    );
    r.report(node.at, reason);
    None
}

/// The name of a resource, which is a DNS name.
pub(super) fn resource_name(r: &mut FieldReader, node: &Node) -> Option<String> {
    let name = r.text(node)?;
    if !is_dns_name(&name) {
        let reason = format!(
            "the name {name:?} is not a DNS name; use lower-case letters, digits and hyphens"
        );
        r.report(node.at, reason);
    }
    Some(name)
}

/// Whether the name consists of DNS labels, as in an authority. `_` is allowed: names of containers have it.
pub(super) fn is_dns_name(name: &str) -> bool {
    name.len() <= 253
        && name.split('.').all(|label| {
            let inner =
                |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// Whether the name is a DNS name whose last label is not a number, unlike a misspelt address.
pub(super) fn is_host_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    is_dns_name(name) && !last.bytes().all(|b| b.is_ascii_digit())
}
