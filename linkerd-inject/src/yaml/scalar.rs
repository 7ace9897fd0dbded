//! The types of scalars without quotes.
//!
//! kubectl reads YAML 1.1, in which `yes` and `on` are booleans, but not all of it: `1:30` is a text.

/// The type of a plain scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainType {
    Null,
    Bool(bool),
    Number,
    /// As a key, it merges other maps; elsewhere it is a text.
    Merge,
    Text,
}

impl PlainType {
    /// The type that kubectl reads.
    pub(super) fn of(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                Self::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => Self::Bool(false),
            MERGE => Self::Merge,
            _ if is_special(text) || number(text).is_some() => Self::Number,
            _ => Self::Text,
        }
    }
}

/// The value of a whole number.
pub(super) fn integer(text: &str) -> Option<i64> {
    let number = number(text)?;
    (number.fract() == 0.0 && number.abs() < MAX_WHOLE).then_some(number as i64)
}

/// The value of a finite number.
fn number(text: &str) -> Option<f64> {
    let starts = |c: char| c.is_ascii_digit() || "+-.".contains(c);
    if !text.starts_with(starts) || text.starts_with("._") {
        return None;
    }
    let digits = text.replace('_', "");
    let (is_negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let number = based(digits).or_else(|| decimal(digits))?;
    Some(if is_negative { -number } else { number })
}

/// A whole number with a prefix of its base. A leading zero is one, too, but not before an 8 or 9.
fn based(digits: &str) -> Option<f64> {
    let rest = digits.strip_prefix('0')?;
    let (radix, rest) = match rest.chars().next()? {
        'x' | 'X' => (16, &rest[1..]),
        'o' | 'O' => (8, &rest[1..]),
        'b' | 'B' => (2, &rest[1..]),
        _ => (8, rest),
    };
    let is_digits = rest.starts_with(|c: char| c.is_digit(radix));
    let number = u64::from_str_radix(rest, radix).ok()?;
    is_digits.then_some(number as f64)
}

/// A decimal number, with or without a fraction and an exponent.
fn decimal(digits: &str) -> Option<f64> {
    let is_decimal = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
    let starts = |c: char| c.is_ascii_digit() || c == '.';
    let fits = digits.starts_with(starts) && digits.chars().all(is_decimal);
    digits.parse().ok().filter(|_| fits)
}

fn is_special(text: &str) -> bool {
    let number = text.trim_start_matches(['+', '-']);
    let signs = text.len() - number.len();
    let is_infinite = [".inf", ".Inf", ".INF"].contains(&number) && signs <= 1;
    is_infinite || [".nan", ".NaN", ".NAN"].contains(&text)
}

/// The key that merges other maps.
pub(super) const MERGE: &str = "<<";

/// Whole numbers below it have an exact value; ports and users are far below.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from kubectl 1.32.
    #[test]
    fn types_are_those_of_kubectl() {
        for text in [
            "1.2.3",
            "9-1",
            "2001-01-01",
            "1:30",
            "tRue",
            "0x",
            "_1",
            "._5",
            "0b2",
            "0x1.8p1",
            "12e",
            ".",
            "=",
            "-",
            "+",
            "1e",
            "..5",
            "nan",
            "inf",
            "--1",
            "1-",
            "0o",
            "1a",
            "yEs",
            "nULL",
        ] {
            assert_eq!(PlainType::of(text), PlainType::Text, "{text}");
        }
        for (text, value) in [
            ("0o17", 15),
            ("1_0", 10),
            ("1.", 1),
            ("1e3", 1000),
            ("1E+3", 1000),
            ("08", 8),
            ("010", 8),
            ("0b1", 1),
            ("+1", 1),
            ("1._0", 1),
            ("-0x1f", -31),
            ("-0o7", -7),
            ("1_e3", 1000),
            ("-0b1", -1),
            ("0x_1", 1),
            ("1__0", 10),
            ("0X1F", 31),
            ("+0x1", 1),
            ("80.0", 80),
            ("0", 0),
            ("0x50", 80),
        ] {
            assert_eq!(PlainType::of(text), PlainType::Number, "{text}");
            assert_eq!(integer(text), Some(value), "{text}");
        }
        for text in [
            ".5",
            "-.5",
            ".5_0",
            "+.5",
            "99999999999999999999",
            "+.inf",
            "-.INF",
            ".NaN",
        ] {
            assert_eq!(PlainType::of(text), PlainType::Number, "{text}");
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
