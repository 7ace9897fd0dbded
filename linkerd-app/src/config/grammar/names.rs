//! DNS names, suffixes and identities.

use super::value::{InvalidValue, items};
use crate::config::NameSuffixes;
use linkerd_proxy_core::tls::{Identity, is_dns_name};

/// A DNS name in lower case. A trailing dot is kept: it makes the name absolute.
pub fn dns_name(text: &str) -> Result<String, InvalidValue> {
    if !is_dns_name(text.strip_suffix('.').unwrap_or(text)) {
        return Err(InvalidValue::default());
    }
    Ok(text.to_ascii_lowercase())
}

/// The name of a workload: a DNS name without a trailing dot, or an absolute URI.
pub fn identity(text: &str) -> Result<String, InvalidValue> {
    let identity = text.parse::<Identity>();
    let identity = identity.map_err(|_| InvalidValue::default())?;
    Ok(identity.to_string())
}

/// A DNS name without a trailing dot, which serves as an identity and as a server name.
pub fn local_name(text: &str) -> Result<String, InvalidValue> {
    if text.starts_with("spiffe://") {
        return Err(InvalidValue::fix(
            "a SPIFFE ID is no server name: in place of this variable, set the one of the identity and that of the server name",
        ));
    }
    if text.ends_with('.') {
        return Err(InvalidValue::fix("remove the trailing dot"));
    }
    dns_name(text)
}

/// DNS suffixes. Blanks around items don't matter, nor do empty items.
pub fn suffixes(text: &str) -> Result<NameSuffixes, InvalidValue> {
    let suffix = |item: &str| {
        if item == "." {
            Ok(item.to_owned())
        } else {
            dns_name(item)
        }
    };
    Ok(NameSuffixes::new(
        items(text).map(suffix).collect::<Result<_, _>>()?,
    ))
}
