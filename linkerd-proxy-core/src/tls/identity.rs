//! Identities of the mesh.

use std::{fmt, str::FromStr, sync::Arc};

/// An identity: a name in a certificate, as a DNS name or a URI (SPIFFE).
///
/// DNS names are stored in lower case, for comparison. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// A DNS name without a trailing dot, in lower case.
    Dns(Arc<str>),
    /// An absolute URI, such as `spiffe://cluster.local/ns/shop/sa/web`.
    Uri(Arc<str>),
}

/// A text that is neither a DNS name nor an absolute URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no identity: expected a DNS name, or a URI such as spiffe://cluster.local/name")]
pub struct InvalidIdentity(String);

impl Identity {
    /// The text of the identity.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Dns(text) | Self::Uri(text) => text,
        }
    }

    /// Whether it is a SPIFFE ID.
    pub fn is_spiffe_id(&self) -> bool {
        matches!(self, Self::Uri(uri) if uri.starts_with("spiffe://"))
    }

    /// The DNS name; `None` for a URI.
    pub fn dns_name(&self) -> Option<&str> {
        match self {
            Self::Dns(name) => Some(name),
            Self::Uri(_) => None,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Identity {
    type Err = InvalidIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidIdentity> {
        if is_dns_name(text) {
            return Ok(Self::Dns(text.to_ascii_lowercase().into()));
        }
        let is_uri = text.len() <= MAX_URI
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && text
                .split_once("://")
                .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty());
        match is_uri {
            true => Ok(Self::Uri(text.into())),
            false => Err(InvalidIdentity(text.chars().take(MAX_SHOWN).collect())),
        }
    }
}

/// Whether a text is a DNS name without a trailing dot (RFC 1123, with `_`). A text whose last label is a number is not a name
/// but an address.
pub fn is_dns_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253
        && text.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The scheme of a URI (RFC 3986, 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// The longest SPIFFE ID (SPIFFE-ID, 2.3).
const MAX_URI: usize = 2048;

/// Characters of an invalid identity that an error shows.
const MAX_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uris_are_identities() {
        let web = "Web.shop.serviceaccount.identity.linkerd.cluster.local";
        let web: Identity = web.parse().unwrap();
        assert_eq!(
            web.dns_name(),
            Some("web.shop.serviceaccount.identity.linkerd.cluster.local")
        );
        let spiffe: Identity = "spiffe://cluster.local/Web".parse().unwrap();
        assert_eq!(
            (spiffe.as_str(), spiffe.dns_name()),
            ("spiffe://cluster.local/Web", None)
        );
    }

    #[test]
    fn other_texts_are_not() {
        let long = format!("{}.local", "a".repeat(64));
        for text in [
            "",
            "web.",
            ".web",
            "-web.local",
            "web-.local",
            "10.0.0.1",
            "*.local",
            "a b",
            "spiffe://",
            "1spiffe://cluster.local",
            "://cluster.local",
            "spiffe://a b",
            &long,
        ] {
            let error = text.parse::<Identity>().unwrap_err();
            assert!(error.to_string().contains("is no identity"), "{text}");
        }
    }
}
