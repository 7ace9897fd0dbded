//! Values of the environment without secrets: the admin port may be reachable by more than its operator.

use std::borrow::Cow;

/// The value of a variable, masked if the variable's name suggests a secret. In other values, credentials are masked. The path of
/// a secret's file is not masked.
pub fn masked<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    match is_secret(name, value) {
        true => MASK.into(),
        false => without_credentials(value),
    }
}

/// A value without its visible credentials: those of URLs, those of `Bearer` and `Basic`, and those of pairs whose name suggests
/// a secret.
pub fn without_credentials(value: &str) -> Cow<'_, str> {
    if !value.contains('@') && !value.contains(['=', ' ']) {
        return value.into();
    }
    let mut masked = String::new();
    for part in value.split_inclusive(SEPARATORS) {
        let item = part.trim_end_matches(SEPARATORS);
        match item.split_once('=') {
            Some((name, own)) if is_secret(name, own) => {
                masked.extend([name, "=", MASK]);
            }
            _ => masked.push_str(&without_scheme_credentials(&without_userinfo(item))),
        }
        masked.push_str(&part[item.len()..]);
    }
    match masked == value {
        true => value.into(),
        false => masked.into(),
    }
}

/// A text whose URL or address, if it has one, has no user and password.
fn without_userinfo(text: &str) -> Cow<'_, str> {
    let Some(at) = text.find('@') else {
        return text.into();
    };
    let start = text[..at]
        .rfind(['/', ' ', '=', '"'])
        .map_or(0, |before| before + 1);
    // The password may have an @ itself.
    let end = text[at..]
        .find(['/', ' ', '?'])
        .map_or(text.len(), |end| at + end);
    let at = text[..end].rfind('@').unwrap_or(at);
    format!("{}{MASK}{}", &text[..start], &text[at..]).into()
}

/// A text without the credentials after the name of their scheme (RFC 9110, 11.4).
fn without_scheme_credentials(text: &str) -> Cow<'_, str> {
    for scheme in ["bearer ", "basic "] {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = lower.find(scheme) {
            return format!("{}{MASK}", &text[..at + scheme.len()]).into();
        }
    }
    text.to_owned().into()
}

/// Whether the name of a variable suggests that its value is a secret.
fn is_secret(name: &str, value: &str) -> bool {
    let words: Vec<_> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .collect();
    let is_secret = words
        .iter()
        .any(|word| KEY.contains(&&**word) || SECRET.iter().any(|secret| word.contains(secret)));
    let is_path =
        value.starts_with('/') && words.last().is_some_and(|word| PATH.contains(&&**word));
    is_secret && !is_path && !value.is_empty()
}

/// Between the items of a list.
const SEPARATORS: [char; 3] = [',', ';', '\n'];

/// Parts of names that mark a secret. `PGPASSWORD` has one in the middle of a word.
const SECRET: [&str; 5] = ["secret", "token", "password", "passwd", "passphrase"];

/// Whole words of names that mark a secret; a part of a word does not, as in `KEYCLOAK_URL`.
const KEY: [&str; 4] = ["key", "keys", "apikey", "apikeys"];

/// Last words of names that mark a path.
const PATH: [&str; 3] = ["file", "path", "dir"];

const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_by_their_name() {
        for (name, value, expected) in [
            ("PGPASSWORD", "x", "***"),
            ("API_KEY", "x", "***"),
            ("KEYCLOAK_URL", "http://a", "http://a"),
            ("TOKEN_FILE", "/run/token", "/run/token"),
            ("TOKEN_FILE", "abc", "***"),
            ("SECRET", "", ""),
        ] {
            assert_eq!(masked(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn credentials_in_values_are_masked() {
        for (value, expected) in [
            (
                "postgres://u:pw@db:5432/x?y=1",
                "postgres://***@db:5432/x?y=1",
            ),
            ("http://u:p@w@host/", "http://***@host/"),
            ("u:pw@host:1", "***@host:1"),
            (
                "authorization=Bearer abc,x=1",
                "authorization=Bearer ***,x=1",
            ),
            ("Basic dTpw", "Basic ***"),
            ("token=abc\nk8s.pod=web", "token=***\nk8s.pod=web"),
            ("warn,linkerd=info", "warn,linkerd=info"),
            ("10.0.0.0/8,192.168.0.0/16", "10.0.0.0/8,192.168.0.0/16"),
            (
                "web.shop.serviceaccount.identity",
                "web.shop.serviceaccount.identity",
            ),
        ] {
            assert_eq!(without_credentials(value), expected, "{value}");
        }
    }
}
