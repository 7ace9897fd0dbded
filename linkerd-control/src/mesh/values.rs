//! Values of fields: durations, statuses, regular expressions, header names. A refused one is reported with its fix.

use super::form::{FieldReader, Fields, Given, Spanned, shown};
use super::yaml::Node;
use http::{HeaderName, HeaderValue, Method};
use regex::RegexBuilder;
use std::ops::RangeInclusive;
use std::time::Duration;

impl FieldReader {
    /// A field's value, unless the field is absent or was reported.
    pub(super) fn value<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        match self.given(fields, name, read) {
            Given::Is(Spanned { value, .. }) => Some(value),
            Given::Absent | Given::Wrong => None,
        }
    }

    /// A field's value; a missing field is reported at the position of the fields, as one of `owner`.
    pub(super) fn required<T>(
        &mut self,
        fields: &Fields<'_>,
        owner: &str,
        name: &str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        if fields.get(name).is_none() {
            self.report(fields.at, format!("{owner} has no `{name}`"));
            return None;
        }
        self.value(fields, name, read)
    }

    /// The values of a field that is a list, each read by `read`.
    pub(super) fn each<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        let items = self.items(fields, name).iter();
        items.filter_map(|item| read(self, item)).collect()
    }

    /// `true` or `false`; absent is `false`.
    pub(super) fn flag(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        let choices = [("true", true), ("false", false)];
        self.choice(fields, name, &choices).unwrap_or_default()
    }

    /// A whole number within a range.
    pub(super) fn within(&mut self, node: &Node, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.number(node)?;
        let good = u32::try_from(number).ok().filter(|n| range.contains(n));
        if good.is_none() {
            let (min, max) = range.into_inner();
            let reason = format!("{number} is not between {min} and {max}");
            self.report(node.at, reason);
        }
        good
    }

    /// A number within a range.
    pub(super) fn decimal_within(
        &mut self,
        node: &Node,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let number = self.decimal(node)?;
        let good = range.contains(&number).then_some(number);
        if good.is_none() {
            let (min, max) = range.into_inner();
            self.report(node.at, format!("{number} is not between {min} and {max}"));
        }
        good
    }

    /// An HTTP status that a proxy may answer with.
    pub(super) fn status(&mut self, node: &Node, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.number(node)?;
        let good = u32::try_from(number).ok().filter(|n| range.contains(n));
        if good.is_none() {
            let (min, max) = range.into_inner();
            let reason = format!("{number} is no HTTP status here; use {min} to {max}");
            self.report(node.at, reason);
        }
        good
    }

    /// A gRPC code, by name or number.
    pub(super) fn grpc_code(&mut self, node: &Node) -> Option<u32> {
        let text = self.text(node)?;
        let named = GRPC_CODES
            .iter()
            .position(|name| name.eq_ignore_ascii_case(&text.replace('-', "_")));
        let number = text.parse::<usize>().ok();
        let code = named.or(number).filter(|code| *code < GRPC_CODES.len());
        if code.is_none() {
            let reason = format!(
                "{} is no gRPC code; use a name such as UNAVAILABLE, or 0 to {}",
                shown(node),
                GRPC_CODES.len() - 1
            );
            self.report(node.at, reason);
        }
        code.and_then(|code| u32::try_from(code).ok())
    }

    /// A duration in the format of the Gateway API (GEP-2257), such as `1m30s`. `0s` is allowed.
    pub(super) fn duration(&mut self, node: &Node) -> Option<Duration> {
        let text = self.text(node)?;
        let duration = parse_duration(&text);
        if duration.is_none() {
            let reason = format!(
                "{} is not a duration; write hours, minutes, seconds or milliseconds, such as 1m30s, 10s or 250ms",
                shown(node)
            );
            self.report(node.at, reason);
        }
        duration
    }

    /// A duration above zero.
    pub(super) fn positive_duration(&mut self, node: &Node) -> Option<Duration> {
        let duration = self.duration(node)?;
        if duration.is_zero() {
            let reason = format!("{} must be longer than 0", shown(node));
            self.report(node.at, reason);
            return None;
        }
        Some(duration)
    }

    /// A regular expression that the proxy can use for whole values.
    pub(super) fn regex(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        match check_regex(&text) {
            Ok(()) => {
                self.patterns.insert(text.clone());
                Some(text)
            }
            Err(problem) => {
                let reason = format!(
                    "{} is not a usable regular expression: {problem}",
                    shown(node)
                );
                self.report(node.at, reason);
                None
            }
        }
    }

    /// Reports regular expressions beyond the limit of a policy or profile, and clears the list.
    pub(super) fn limit_patterns(&mut self, node: &Node) {
        let count = std::mem::take(&mut self.patterns).len();
        if count > MAX_PATTERNS {
            let reason = format!(
                "{count} regular expressions are more than {MAX_PATTERNS}; use exact values or prefixes"
            );
            self.report(node.at, reason);
        }
    }

    pub(super) fn header_name(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        match HeaderName::try_from(&text) {
            Ok(name) => Some(name.as_str().to_owned()),
            Err(_) => {
                let reason = format!(
                    "{} is not a header name; use letters, digits and hyphens",
                    shown(node)
                );
                self.report(node.at, reason);
                None
            }
        }
    }

    pub(super) fn header_value(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        if HeaderValue::try_from(&text).is_err() {
            let reason =
                format!("{text:?} is not a header value; use visible characters in one line");
            self.report(node.at, reason);
            return None;
        }
        Some(text)
    }

    /// An HTTP method: case matters, and all known methods are in capitals.
    pub(super) fn http_method(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        let is_good = Method::from_bytes(text.as_bytes()).is_ok()
            && !text.bytes().any(|byte| byte.is_ascii_lowercase());
        if !is_good {
            let reason = format!("{} is not a method; use GET, POST or another", shown(node));
            self.report(node.at, reason);
        }
        is_good.then_some(text)
    }

    /// A path, which begins with a slash.
    pub(super) fn path(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node)?;
        if !text.starts_with('/') {
            let reason = format!("{} is not a path; begin it with `/`", shown(node));
            self.report(node.at, reason);
            return None;
        }
        Some(text)
    }
}

/// Up to four numbers of up to five digits, each with its unit.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = (digits <= 5)
            .then(|| rest[..digits].parse().ok())
            .flatten()?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        let (unit, ms) = units.iter().find(|(unit, _)| rest.starts_with(unit))?;
        sum += Duration::from_millis(number * ms);
        rest = &rest[unit.len()..];
        if rest.is_empty() {
            return Some(sum);
        }
    }
    None
}

/// The problem of a regular expression, in the parser's words.
fn check_regex(text: &str) -> Result<(), String> {
    let last_line = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        error.lines().last().unwrap_or_default().to_owned()
    };
    // Parsed alone first: within the group, `a)(b` would be valid.
    regex_syntax::parse(text).map_err(|error| last_line(&error))?;
    RegexBuilder::new(&format!("^(?:{text})$"))
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| last_line(&error))?;
    Ok(())
}

/// The names of gRPC codes, by number.
const GRPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The proxy's bound on a compiled regular expression; the fuzz target of the mesh file compares them.
const MAX_PATTERN_BYTES: usize = 1 << 18;

/// The proxy's bound on the regular expressions of a policy or a profile.
const MAX_PATTERNS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_the_gateway_api() {
        for (text, ms) in [
            ("0s", Some(0)),
            ("10s", Some(10_000)),
            ("250ms", Some(250)),
            ("1m30s", Some(90_000)),
            ("1h1m1s1ms", Some(3_661_001)),
            ("99999h", Some(359_996_400_000)),
            ("", None),
            ("10", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("1d", None),
            ("100000s", None),
            ("1s1s1s1s1s", None),
            ("1s ", None),
        ] {
            assert_eq!(
                parse_duration(text),
                ms.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn regular_expressions_are_bounded() {
        assert_eq!(check_regex("/books/[0-9]+"), Ok(()));
        for text in ["(", "a)(b", r"\w{1000}{1000}"] {
            assert!(check_regex(text).is_err(), "{text}");
        }
    }
}
