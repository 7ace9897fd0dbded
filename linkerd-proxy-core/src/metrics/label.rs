//! Labels as text.

use super::escape::{Escaped, has_escapes, unescaped};
use std::{
    fmt::{self, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// Labels in the text of the exposition format, such as `direction="outbound",peer="src"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(String);

impl Labels {
    /// No labels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a label. The value is escaped, and an invalid name is made valid.
    pub fn with(self, name: &str, value: impl fmt::Display) -> Self {
        self.with_prefix("", name, value)
    }

    /// Adds a label of the proxy's own words, which need no escapes.
    pub fn with_word(self, name: &'static str, value: &'static str) -> Self {
        debug_assert!(is_plain(name, value), "{name}={value}");
        self.with_plain("", name, value)
    }

    /// Adds an address with its port. Faster than `Display`: a scrape may write the addresses of 10,000 endpoints several times.
    pub fn with_addr(mut self, name: &'static str, addr: SocketAddr) -> Self {
        let SocketAddr::V4(v4) = addr else {
            return self.with(name, addr);
        };
        self.begin(name);
        self.push_ipv4(*v4.ip());
        self.0.push(':');
        self.push_number(v4.port());
        self.0.push('"');
        self
    }

    /// Adds an address.
    pub fn with_ip(mut self, name: &'static str, ip: IpAddr) -> Self {
        let IpAddr::V4(v4) = ip else {
            return self.with(name, ip);
        };
        self.begin(name);
        self.push_ipv4(v4);
        self.0.push('"');
        self
    }

    /// Adds a number.
    pub fn with_number(mut self, name: &'static str, number: u16) -> Self {
        self.begin(name);
        self.push_number(number);
        self.0.push('"');
        self
    }

    /// Adds a label that [`is_plain`], with a prefix before its name.
    fn with_plain(mut self, prefix: &str, name: &str, value: &str) -> Self {
        self.comma();
        for part in [prefix, name, "=\"", value, "\""] {
            self.0.push_str(part);
        }
        self
    }

    /// Adds a label whose name has two parts.
    pub fn with_prefix(mut self, prefix: &str, name: &str, value: impl fmt::Display) -> Self {
        self.comma();
        self.push_name(prefix);
        self.push_name(name);
        self.0.push_str("=\"");
        write!(Escaped(&mut self.0), "{value}").expect("writing to a string does not fail");
        self.0.push('"');
        self
    }

    /// Adds labels with a prefix before each name, all of which are plain ([`is_plain`]).
    pub fn with_all_plain<'a>(
        self,
        prefix: &str,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        labels.fold(self, |all, (name, value)| {
            all.with_plain(prefix, name, value)
        })
    }

    /// Adds labels with names from elsewhere, such as discovery, with a prefix before each name.
    ///
    /// Names that become equal once made valid (`a.b`, `a_b`) become one label, as a scraper refuses a series with a
    /// repeated name. The name that was valid already wins, else the first one.
    pub fn with_all<'a>(
        mut self,
        prefix: &str,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let mut cleaned = false;
        for (name, value) in labels.clone() {
            if is_valid(name) {
                self = self.with_prefix(prefix, name, value);
            } else {
                cleaned = true;
            }
        }
        if !cleaned {
            return self;
        }
        for (name, value) in labels.filter(|(name, _)| !is_valid(name)) {
            let mut valid = Self::new();
            valid.push_name(prefix);
            valid.push_name(name);
            if self.names().all(|name| name != valid.0) {
                self = self.with_prefix(prefix, name, value);
            }
        }
        self
    }

    /// Adds all labels of another set.
    pub fn and(self, other: &Labels) -> Self {
        self.and_text(&other.0)
    }

    /// Labels from rendered text.
    pub(super) fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The rendered text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names and values, without their escapes.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            let (name, value) = rest.split_once("=\"")?;
            let (value, length) = unescaped(value)?;
            let end = name.len() + 2 + length + 1;
            rest = rest[end..].trim_start_matches(',');
            Some((name, value))
        })
    }

    /// The rendered text alone.
    pub(super) fn into_text(self) -> Box<str> {
        self.0.into()
    }

    /// Removes all labels, and keeps the capacity.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Labels with room for most sets.
    pub(super) fn with_capacity() -> Self {
        Self(String::with_capacity(MOST))
    }

    /// Adds rendered labels.
    pub(super) fn and_text(mut self, text: &str) -> Self {
        if !text.is_empty() {
            self.comma();
            self.0.push_str(text);
        }
        self
    }

    /// Begins a label with a name that the proxy defines.
    fn begin(&mut self, name: &'static str) {
        self.comma();
        self.0.push_str(name);
        self.0.push_str("=\"");
    }

    fn push_ipv4(&mut self, ip: Ipv4Addr) {
        for (index, octet) in ip.octets().into_iter().enumerate() {
            if index > 0 {
                self.0.push('.');
            }
            self.push_number(octet.into());
        }
    }

    fn push_number(&mut self, number: u16) {
        self.0.push_str(itoa::Buffer::new().format(number));
    }

    fn comma(&mut self) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
    }

    fn push_name(&mut self, name: &str) {
        // Almost all names are valid, and a scrape may write the names of 10,000 endpoints.
        if is_valid(name) {
            return self.0.push_str(name);
        }
        let valid = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
        self.0.extend(valid);
    }

    /// The names in the text.
    fn names(&self) -> impl Iterator<Item = &str> {
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            let (name, value) = rest.split_once("=\"")?;
            let mut escaped = false;
            let end = value.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })?;
            rest = value[end + 1..].trim_start_matches(',');
            Some(name)
        })
    }
}

/// Whether a label can be written as it is: its name is valid, and its value needs no escapes.
pub fn is_plain(name: &str, value: &str) -> bool {
    is_valid(name) && !has_escapes(value)
}

fn is_valid(name: &str) -> bool {
    name.bytes().all(|c| is_allowed(c.into()))
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Longer than most labels, in bytes.
const MOST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn pairs_are_the_names_and_values_that_were_added() {
        let values = [
            ("a", "1"),
            ("b", ""),
            ("c", "x\"y\\z\n,d=\"e\""),
            ("f", "ü"),
        ];
        let labels = values.iter().fold(Labels::new(), |labels, (name, value)| {
            labels.with(name, value)
        });
        let pairs: Vec<_> = labels.pairs().collect();
        let expected = values.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(pairs, expected);
        assert_eq!(Labels::new().pairs().count(), 0);
    }

    #[test]
    fn values_are_escaped_and_names_made_valid() {
        let labels = Labels::new()
            .with("a.b/c", "x\"y\\z\n")
            .and(&Labels::new().with("n", 5))
            .with_prefix("dst_", "d.e", "");
        assert_eq!(labels.as_str(), r#"a_b_c="x\"y\\z\n",n="5",dst_d_e="""#);
    }

    #[test]
    fn addresses_and_numbers_are_as_their_display() {
        for addr in ["10.20.0.255:80", "[2001:db8::1]:65535"] {
            let addr: SocketAddr = addr.parse().unwrap();
            let quick = Labels::new()
                .with_addr("a", addr)
                .with_ip("i", addr.ip())
                .with_number("p", addr.port())
                .with_word("w", "word");
            let slow = Labels::new()
                .with("a", addr)
                .with("i", addr.ip())
                .with("p", addr.port())
                .with("w", "word");
            assert_eq!(quick, slow);
        }
        let plain = [("a", "1"), ("b_c", "x-y")];
        assert!(plain.iter().all(|(name, value)| is_plain(name, value)));
        let all = Labels::new().with_all_plain("dst_", plain.into_iter());
        assert_eq!(all, Labels::new().with_all("dst_", plain.into_iter()));
        for (name, value) in [("a.b", "1"), ("a", "\""), ("a", "\n"), ("a", "\\")] {
            assert!(!is_plain(name, value), "{name}={value:?}");
        }
    }

    #[test]
    fn names_that_become_equal_are_one_label() {
        let all = [
            ("a.b", "1"),
            ("a/b", "2"),
            ("a_b", "3"),
            ("c.d", "4"),
            ("c/d", "5"),
        ];
        let labels = Labels::new().with("n", "x\",dst_c_d=");
        let labels = labels.with_all("dst_", all.into_iter());
        assert_eq!(
            labels.as_str(),
            r#"n="x\",dst_c_d=",dst_a_b="3",dst_c_d="4""#
        );
    }

    /// Reads labels as a scraper does, independently of the code that writes them.
    fn parse(text: &str) -> Vec<(String, String)> {
        let mut chars = text.chars().peekable();
        let mut labels = Vec::new();
        while chars.peek().is_some() {
            let name: String = chars.by_ref().take_while(|c| *c != '=').collect();
            assert_eq!(chars.next(), Some('"'), "{text}");
            let mut value = String::new();
            loop {
                match chars.next().expect(text) {
                    '"' => break,
                    '\\' => match chars.next() {
                        Some('n') => value.push('\n'),
                        Some(c) => value.push(c),
                        None => panic!("{text}"),
                    },
                    c => value.push(c),
                }
            }
            assert!(matches!(chars.next(), None | Some(',')), "{text}");
            labels.push((name, value));
        }
        labels
    }

    proptest! {
        #[test]
        fn no_names_of_others_make_a_series_that_a_scraper_refuses(
            others in prop::collection::btree_map("[ab._/é=\",\\\\]{0,4}", "[a=\",\\\\\n]{0,6}", 0..8),
            own in "[a=\",\\\\\n]{0,6}",
        ) {
            let all = others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let labels = Labels::new().with("own", &own).with_all("dst_", all);
            let parsed = parse(labels.as_str());
            let names: BTreeSet<_> = parsed.iter().map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(names.len(), parsed.len(), "{}", labels.as_str());
            let parsed: BTreeMap<_, _> = parsed.into_iter().collect();
            prop_assert_eq!(&parsed["own"], &own);
            for (name, value) in &others {
                let clean: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
                let shown = &parsed[&format!("dst_{clean}")];
                prop_assert!(*name != clean || shown == value, "a valid name counts");
            }
        }
    }
}
