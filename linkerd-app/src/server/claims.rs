//! Header fields that only proxies may set, in every spelling.
//!
//! CGI, WSGI, Rack and PHP read `l5d_client_id` and `l5d-client-id` as one variable. A field that is removed is therefore removed
//! with underscores in place of its hyphens, too.

use http::{HeaderMap, HeaderName};

/// Removes the fields of this name, and those that an application may take for them.
pub fn remove_spellings(headers: &mut HeaderMap, name: &HeaderName) {
    remove_where(headers, |found| is_spelling(found, name));
}

/// Removes the fields that an application may take for those of this name, and leaves these.
pub fn remove_other_spellings(headers: &mut HeaderMap, name: &HeaderName) {
    remove_where(headers, |found| found != name && is_spelling(found, name));
}

/// Removes fields that only proxies may set: the client's identity, and the service that it asked for.
pub fn remove_claims(headers: &mut HeaderMap) {
    remove_where(headers, |found| {
        is_spelling(found, &L5D_CLIENT_ID) || is_spelling(found, &L5D_DST_CANONICAL)
    });
}

fn remove_where(headers: &mut HeaderMap, matches: impl Fn(&HeaderName) -> bool) {
    while let Some(name) = headers.keys().find(|name| matches(name)).cloned() {
        headers.remove(name);
    }
}

/// Whether an application that reads `_` as `-` takes `found` for `name`.
fn is_spelling(found: &HeaderName, name: &HeaderName) -> bool {
    let (found, name) = (found.as_str().as_bytes(), name.as_str().as_bytes());
    let is_same = |(found, name): (&u8, &u8)| found == name || (*found == b'_' && *name == b'-');
    found.len() == name.len() && found.iter().zip(name).all(is_same)
}

/// The identity of the client, as its own proxy verified it.
pub const L5D_CLIENT_ID: HeaderName = HeaderName::from_static("l5d-client-id");
/// The service of a request, as named by the proxy of its client.
pub const L5D_DST_CANONICAL: HeaderName = HeaderName::from_static("l5d-dst-canonical");

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(names: &[&'static str]) -> HeaderMap {
        let value = HeaderValue::from_static("admin");
        let fields = names
            .iter()
            .map(|name| (HeaderName::from_static(name), value.clone()));
        fields.collect()
    }

    #[test]
    fn claims_are_removed_in_every_spelling() {
        let mut claiming = headers(&[
            "l5d-client-id",
            "l5d_client_id",
            "l5d-client_id",
            "l5d_dst_canonical",
            "l5d-client-id2",
            "l5dxclient-id",
            "host",
        ]);
        remove_claims(&mut claiming);
        let left = headers(&["l5d-client-id2", "l5dxclient-id", "host"]);
        assert_eq!(claiming, left);
    }

    #[test]
    fn a_field_may_stay_while_its_other_spellings_go() {
        let mut named = headers(&["x-forwarded-for", "x_forwarded_for", "x-forwarded_for"]);
        let name = HeaderName::from_static("x-forwarded-for");
        remove_other_spellings(&mut named, &name);
        assert_eq!(named, headers(&["x-forwarded-for"]));
        remove_spellings(&mut named, &name);
        assert!(named.is_empty());
    }
}
