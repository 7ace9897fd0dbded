//! DNS names, suffixes and identities.

use super::value::{InvalidValue, items};
use crate::config::NameSuffixes;

/// A DNS name in lower case. A trailing dot is kept: it makes the name absolute.
pub fn dns_name(text: &str) -> Result<String, InvalidValue> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    if name.len() > 253
        || !name.split('.').all(is_label)
        || last.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(InvalidValue::default());
    }
    Ok(text.to_ascii_lowercase())
}

/// The name of a workload: a DNS name without a trailing dot, or an absolute URI.
pub fn identity(text: &str) -> Result<String, InvalidValue> {
    if let Ok(name) = local_name(text) {
        return Ok(name);
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(InvalidValue::default)?;
    let scheme_starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let scheme_continues = scheme
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if scheme_starts
        && scheme_continues
        && !rest.is_empty()
        && rest.bytes().all(|b| b.is_ascii_graphic())
    {
        Ok(text.to_owned())
    } else {
        Err(InvalidValue::default())
    }
}

/// A DNS name without a trailing dot, which serves as an identity and as a server name.
pub fn local_name(text: &str) -> Result<String, InvalidValue> {
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

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}
