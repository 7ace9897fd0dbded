//! Settings of the access log.

use http::HeaderName;
use std::path::PathBuf;

/// The access log.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLogConfig {
    /// The form of a line.
    pub format: AccessLogFormat,
    /// The output of the lines.
    pub output: AccessLogOutput,
    /// The share of successful requests that are logged.
    pub sample: f64,
    /// Whether queries of paths are logged.
    pub query: bool,
    /// The request headers that are logged, none of them secret.
    pub headers: Vec<HeaderName>,
}

/// The form of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// The incumbent's common log format, for inbound requests.
    Apache,
    /// The incumbent's JSON object, for inbound requests.
    Json,
    /// A JSON object with all known fields.
    Full,
    /// A line for a person.
    Text,
}

/// The output of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogOutput {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file.
    File(PathBuf),
}

impl AccessLogFormat {
    /// The name in the environment and in `/state`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apache => "apache",
            Self::Json => "json",
            Self::Full => "full",
            Self::Text => "text",
        }
    }

    /// Whether it is one of the incumbent's.
    pub fn is_incumbent(self) -> bool {
        matches!(self, Self::Apache | Self::Json)
    }
}

/// Whether a header is a secret, or one that only proxies may set.
pub fn is_secret(name: &HeaderName) -> bool {
    let name = name.as_str();
    let words = ["authorization", "cookie"];
    words.iter().any(|word| name.contains(word)) || name.starts_with("l5d-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_cookies_and_what_proxies_say_are_secrets() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "l5d-client-id",
        ] {
            assert!(is_secret(&HeaderName::from_static(name)), "{name}");
        }
        assert!(!is_secret(&HeaderName::from_static("x-request-id")));
    }
}
