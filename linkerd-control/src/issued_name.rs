//! Names for which certificates may be issued.

use std::collections::BTreeSet;

/// Names that are never issued: those of the controller itself, in lower case. `*.a.test` stands for all names that end in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservedNames(BTreeSet<String>);

/// A name that is not issued to any proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error(
        "{0:?} is not the name of a proxy; ask for one DNS name without a wildcard, or for one URI"
    )]
    Invalid(String),
    #[error("{0} is the name of this controller, which is not issued to proxies")]
    Reserved(String),
}

impl ReservedNames {
    pub(crate) fn add(&mut self, names: &[impl AsRef<str>]) {
        let names = names.iter().map(|name| canonical(name.as_ref()));
        self.0.extend(names);
    }

    /// The name that the certificate gets, if it is one that proxies have: DNS names are compared without their case.
    pub(crate) fn allow(&self, name: &str) -> Result<String, NameError> {
        if !(is_dns_name(name) || is_uri(name)) {
            return Err(NameError::Invalid(name.chars().take(MAX_SHOWN).collect()));
        }
        if is_uri(name) {
            return Ok(name.to_owned());
        }
        let name = canonical(name);
        let is_reserved = self
            .0
            .iter()
            .any(|reserved| match reserved.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => name == *reserved,
            });
        match is_reserved {
            true => Err(NameError::Reserved(name)),
            false => Ok(name),
        }
    }
}

fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a name has only labels of letters, digits, `-` and `_`, and is no address.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 253
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name is an absolute URI, such as a SPIFFE ID.
fn is_uri(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    name.len() <= MAX_URI
        && !name.contains('*')
        && name.bytes().all(|byte| byte.is_ascii_graphic())
        && scheme.is_some_and(is_scheme)
}

/// The longest SPIFFE ID (SPIFFE-ID, 2.3).
const MAX_URI: usize = 2048;

/// Characters of an invalid name that an error shows.
const MAX_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use NameError::{Invalid, Reserved};

    #[test]
    fn names_of_the_controller_and_wildcards_are_not_issued() {
        let mut reserved = ReservedNames::default();
        reserved.add(&["Control.mesh.test", "*.control.test"]);
        for name in ["control.mesh.test", "CONTROL.mesh.test", "a.control.test"] {
            let refused = reserved.allow(name);
            assert_eq!(refused, Err(Reserved(name.to_ascii_lowercase())));
        }
        for name in [
            "*.mesh.test",
            "*",
            "web.*.test",
            "",
            ".",
            "web.",
            "web.mesh.test.",
            "a b",
            "10.0.0.1",
            "control.mesh.test.",
            "spiffe://*/web",
            "a:b",
            "-a.test",
            "http:/x",
            "web\0.test",
        ] {
            assert_eq!(
                reserved.allow(name),
                Err(Invalid(name.to_owned())),
                "{name:?}"
            );
        }
        for name in [
            "web.mesh.test",
            "control",
            "notcontrol.mesh.test",
            "spiffe://mesh.test/web",
        ] {
            assert_eq!(reserved.allow(name).as_deref(), Ok(name));
        }
        assert_eq!(reserved.allow("Web.mesh.test").unwrap(), "web.mesh.test");
    }
}
