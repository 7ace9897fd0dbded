//! Recognition of secrets, by their names and by their values, where the proxy shows the environment or headers.
//!
//! Better one value too many hidden than a key in a terminal: a value counts as a secret if either says so.

/// Whether a name is that of a secret: of a variable, a field or a key. Words are separated by anything but letters and digits.
pub fn is_secret_name(name: &str) -> bool {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(str::to_ascii_lowercase)
        .any(|word| WORDS.contains(&&*word) || PARTS.iter().any(|part| word.contains(part)))
}

/// Whether a value has a secret in it: a private key, a JSON web token (RFC 7519), a token with the prefix of a known issuer, or a
/// long random text.
pub fn has_secret(value: &str) -> bool {
    value.contains("PRIVATE KEY-----") || value.split(|c: char| !is_token(c)).any(is_secret_token)
}

fn is_secret_token(token: &str) -> bool {
    let is_issued =
        |prefix: &&str| token.len() >= prefix.len() + LEAST_ISSUED && token.starts_with(*prefix);
    PREFIXES.iter().any(is_issued) || is_jwt(token) || token.split('.').any(is_random)
}

/// A header and claims, both JSON objects: the first byte of their encoding is that of `{"`.
fn is_jwt(token: &str) -> bool {
    let mut parts = token.split('.');
    let is_object = |part: Option<&str>| part.is_some_and(|part| part.starts_with("eyJ"));
    is_object(parts.next()) && is_object(parts.next())
}

/// A text in which letters, capitals and digits alternate as they do in no word and no name. Of names in lower case, such as those of
/// pods and UUIDs, each part counts by itself.
fn is_random(text: &str) -> bool {
    let is_name = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    if is_name && text.contains('-') {
        return text.split('-').any(is_random);
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let switches = text
        .as_bytes()
        .windows(2)
        .filter(|pair| kind(pair[0]) != kind(pair[1]));
    text.len() >= LEAST_RANDOM
        && digits >= 2
        && digits < text.len() - 1
        && switches.count() * SWITCHED >= text.len()
}

fn kind(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// The characters of Base64 in both alphabets (RFC 4648), and the dots of tokens.
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '.')
}

/// Parts of words that mark a secret. `PGPASSWORD` has one in the middle of a word.
const PARTS: [&str; 9] = [
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "authorization",
    "cookie",
    "apikey",
];

/// Whole words that mark a secret; a part of a word does not, as in `KEYCLOAK_URL`.
const WORDS: [&str; 18] = [
    "key",
    "keys",
    "apikeys",
    "pass",
    "pw",
    "pwd",
    "jwt",
    "sk",
    "pat",
    "pin",
    "otp",
    "auth",
    "dsn",
    "session",
    "sid",
    "signature",
    "bearer",
    "private",
];

/// The beginnings of tokens of GitHub, GitLab, Slack, Stripe, AWS, Google, npm and others, which they publish so that tokens are
/// found.
const PREFIXES: [&str; 17] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "AKIA",
    "AIza",
    "npm_",
    "SG.",
];

/// The least length of a token behind its prefix.
const LEAST_ISSUED: usize = 8;
/// The least length of a random text: 15 bytes in Base64, 10 in hexadecimal.
const LEAST_RANDOM: usize = 20;
/// One of so many neighbours must differ in kind. Of random Base64 two of three do, of hexadecimal half, of names and versions few.
const SWITCHED: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_secrets_are_known() {
        for name in [
            "PGPASSWORD",
            "DB_PASS",
            "JWT",
            "STRIPE_SK",
            "API_KEY",
            "SENTRY_DSN",
            "x-auth-token",
            "x-session",
            "proxy-authorization",
            "set-cookie",
            "AWS_SECRET_ACCESS_KEY",
            "GH_PAT",
            "x-signature",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "KEYCLOAK_URL",
            "HOME",
            "x-tenant",
            "content-type",
            "PATH",
            "HOSTNAME",
            "user-agent",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_with_secrets_are_known() {
        for value in [
            "-----BEGIN EC PRIVATE KEY-----\nabc",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "id=eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.",
            "sk_live_51H8abcdefgh",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
            "5f4dcc3b5aa765d61d8327deb882cf99",
            "https://hooks.example/services/T00000000/B00000000/XyZ12abCD34efGH56ijKL78",
        ] {
            assert!(has_secret(value), "{value}");
        }
        for value in [
            "web.shop.serviceaccount.identity.linkerd.cluster.local:8080",
            "web-5d9c7b6f4d-x2x9k",
            "123e4567-e89b-12d3-a456-426614174000",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            "application/json;q=0.9, text/html",
            "Wed, 25 Nov 2026 08:00:00 GMT",
            "10.0.0.0/8,192.168.0.0/16,fd00::/8",
            "warn,linkerd=info",
            "-----BEGIN CERTIFICATE-----",
            "1764064800000000000000",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
        ] {
            assert!(!has_secret(value), "{value}");
        }
    }

    proptest! {
        #[test]
        fn random_tokens_are_found(token in "[A-Za-z0-9_-]{43}", hex in "[0-9a-f]{40}") {
            // One in a thousand has few digits or few changes.
            let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
            prop_assume!(digits(&token) >= 4 && token.contains(|c: char| c.is_ascii_uppercase()));
            prop_assume!((10..=35).contains(&digits(&hex)));
            prop_assert!(has_secret(&token), "{token}");
            prop_assert!(has_secret(&hex), "{hex}");
        }
    }
}
