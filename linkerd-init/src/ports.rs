//! Ports and ranges of ports.

use std::{fmt, str::FromStr};

/// A port, or a range of ports with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// A text that is neither a port nor a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a port (1 to 65535) nor a range such as 8000-8099")]
pub struct PortRangeError(String);

impl PortRange {
    /// The number of entries that it takes in a rule: the kernel's limit of 15 counts a range as two.
    pub(crate) fn entries(self) -> usize {
        match self.first == self.last {
            true => 1,
            false => 2,
        }
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let refused = || PortRangeError(text.to_owned());
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let first = port(first).ok_or_else(refused)?;
        let last = port(last).ok_or_else(refused)?;
        match first <= last {
            true => Ok(Self { first, last }),
            false => Err(refused()),
        }
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

/// The format of iptables.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}:{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_and_a_range_are_understood_and_nothing_else() {
        let parse = |text: &str| text.parse::<PortRange>();
        assert_eq!(parse("4191").unwrap().to_string(), "4191");
        assert_eq!(parse("8000-8099").unwrap().to_string(), "8000:8099");
        assert_eq!(parse(" 1 - 2 ").unwrap().to_string(), "1:2");
        for bad in ["", "0", "65536", "9-8", "1-", "-1", "http", "1:2"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
