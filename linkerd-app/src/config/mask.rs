//! Values of the environment without secrets: the admin port may be reachable by more than its operator.

use crate::secrets::{has_secret, is_secret_name};
use std::borrow::Cow;

/// The value of a variable, masked if its name or itself suggests a secret. In other values, credentials are masked. The path of
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
        return if has_secret(value) {
            MASK.into()
        } else {
            value.into()
        };
    }
    let mut masked = String::new();
    for part in value.split_inclusive(SEPARATORS) {
        let item = part.trim_end_matches(SEPARATORS);
        match item.split_once('=') {
            Some((name, own)) if is_secret(last_name(name), own) => {
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

/// Whether a variable is a secret, by its name or its value. The path of a secret's file is none.
fn is_secret(name: &str, value: &str) -> bool {
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
    let is_path = value.starts_with('/')
        && last.is_some_and(|word| PATH.iter().any(|path| word.eq_ignore_ascii_case(path)));
    !value.is_empty() && !is_path && (is_secret_name(name) || has_secret(value))
}

/// The name before an `=`, without the URL or the words in front of it.
fn last_name(text: &str) -> &str {
    let is_separator = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    text.rsplit(is_separator).next().unwrap_or_default()
}

/// Between the items of a list.
const SEPARATORS: [char; 3] = [',', ';', '\n'];

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
            ("DB_PASS", "x", "***"),
            ("JWT", "x", "***"),
            ("STRIPE_SK", "x", "***"),
            ("CERT", "-----BEGIN PRIVATE KEY-----", "***"),
            (
                "WEBHOOK",
                "https://hooks.test/XyZ12abCD34efGH56ijKL78",
                "***",
            ),
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
            ("authorization=Bearer abc,x=1", "authorization=***,x=1"),
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
