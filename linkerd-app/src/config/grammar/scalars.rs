//! Durations, numbers, switches and words.

use super::value::InvalidValue;
use crate::config::{ConsoleAccess, DefaultPolicy, ForwardedHeader, LogFormat};
use std::str::FromStr;
use std::time::Duration;

/// A duration: an integer and its unit (`ms`, `s`, `m`, `h`, `d`), with blanks around it; `0` needs no unit.
///
/// Longer durations than a hundred years count as a hundred years.
pub fn duration(text: &str) -> Result<Duration, InvalidValue> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(InvalidValue::default());
    }
    let number: u64 = number
        .parse()
        .map_err(|_| InvalidValue::fix("the number is too large"))?;
    let unit = match unit {
        "ms" => return Ok(Duration::from_millis(number).min(FOREVER)),
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "" if number == 0 => 0,
        "" => {
            return Err(InvalidValue::fix(format!(
                "add the unit: {number}s, if seconds are meant"
            )));
        }
        unit if unit.starts_with('.') => {
            return Err(InvalidValue::fix(
                "use a smaller unit instead of a fraction",
            ));
        }
        unit if unit.trim_start() != unit => {
            return Err(InvalidValue::fix("remove the space before the unit"));
        }
        _ => return Err(InvalidValue::default()),
    };
    Ok(Duration::from_secs(number.saturating_mul(unit)).min(FOREVER))
}

/// A duration, or nothing.
pub fn optional_duration(text: &str) -> Result<Option<Duration>, InvalidValue> {
    if text.is_empty() {
        Ok(None)
    } else {
        duration(text).map(Some)
    }
}

/// Exactly `true` or `false`.
pub fn boolean(text: &str) -> Result<bool, InvalidValue> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(match text.trim().to_ascii_lowercase().as_str() {
            "1" | "yes" | "on" | "true" => InvalidValue::fix("write true"),
            "0" | "no" | "off" | "false" => InvalidValue::fix("write false"),
            _ => InvalidValue::default(),
        }),
    }
}

/// `1`, `0`, `true` or `false`.
pub fn switch(text: &str) -> Result<bool, InvalidValue> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => boolean(text),
    }
}

/// A number in Rust's notation, without blanks around it.
pub fn number<N: FromStr>(text: &str) -> Result<N, InvalidValue> {
    text.parse().map_err(|_| match text.trim() {
        trimmed if trimmed != text && trimmed.parse::<N>().is_ok() => {
            InvalidValue::fix("remove the spaces")
        }
        _ => InvalidValue::default(),
    })
}

/// An integer of 1 or more.
pub fn positive(text: &str) -> Result<usize, InvalidValue> {
    number(text).and_then(|n| accept(n, n > 0))
}

/// A number of cores.
pub fn core_count(text: &str) -> Result<usize, InvalidValue> {
    positive(text)
}

/// A percentile: above 0 and below 100.
pub fn percentile(text: &str) -> Result<f64, InvalidValue> {
    number(text).and_then(|n: f64| accept(n, n > 0.0 && n < 100.0))
}

/// A share: above 0 and up to 1.
pub fn ratio(text: &str) -> Result<f64, InvalidValue> {
    number(text).and_then(|n: f64| accept(n, n > 0.0 && n <= 1.0))
}

/// A share from 0 to 1.
pub fn share(text: &str) -> Result<f64, InvalidValue> {
    number(text).and_then(|n: f64| accept(n, (0.0..=1.0).contains(&n)))
}

/// The size of an HTTP/2 window.
pub fn window(text: &str) -> Result<u32, InvalidValue> {
    number(text).and_then(|n| accept(n, n <= MAX_WINDOW))
}

/// The size of an HTTP/2 frame.
pub fn frame_size(text: &str) -> Result<u32, InvalidValue> {
    number(text).and_then(|n| accept(n, FRAME_SIZES.contains(&n)))
}

/// The size of a send buffer: an HTTP/2 stream counts it in 32 bits.
pub fn send_buffer(text: &str) -> Result<usize, InvalidValue> {
    number(text).and_then(|n: usize| accept(n, u32::try_from(n).is_ok()))
}

/// Any text.
pub fn text(text: &str) -> Result<String, InvalidValue> {
    Ok(text.to_owned())
}

/// Any text but the empty one.
pub fn non_empty(text: &str) -> Result<String, InvalidValue> {
    accept(text.to_owned(), !text.is_empty())
}

/// Only the empty text: the variable of a feature that cannot be enabled.
pub fn empty(text: &str) -> Result<(), InvalidValue> {
    if text.is_empty() {
        Ok(())
    } else {
        Err(InvalidValue::fix("unset the variable"))
    }
}

/// `plain` or `json`, in any case.
pub fn log_format(text: &str) -> Result<LogFormat, InvalidValue> {
    match text.trim().to_ascii_lowercase().as_str() {
        "plain" => Ok(LogFormat::Plain),
        "json" => Ok(LogFormat::Json),
        _ => Err(InvalidValue::default()),
    }
}

/// The name of a default policy.
pub fn default_policy(text: &str) -> Result<DefaultPolicy, InvalidValue> {
    DefaultPolicy::ALL
        .into_iter()
        .find(|policy| policy.name() == text)
        .ok_or_else(InvalidValue::default)
}

/// The headers with the address of the client, for the application.
pub fn forwarded_header(text: &str) -> Result<ForwardedHeader, InvalidValue> {
    match text {
        "off" => Ok(ForwardedHeader::Off),
        "forwarded" => Ok(ForwardedHeader::Forwarded),
        "x-forwarded-for" => Ok(ForwardedHeader::XForwardedFor),
        "both" => Ok(ForwardedHeader::Both),
        _ => Err(InvalidValue::default()),
    }
}

/// The clients that may open the console.
pub fn console_access(text: &str) -> Result<ConsoleAccess, InvalidValue> {
    match text {
        "off" => Ok(ConsoleAccess::Off),
        "loopback" => Ok(ConsoleAccess::Loopback),
        "all" => Ok(ConsoleAccess::All),
        _ => Err(InvalidValue::default()),
    }
}

/// `unsafe` in any case turns the labels on; the empty text leaves them off.
pub fn authority_labels(text: &str) -> Result<bool, InvalidValue> {
    match text.to_ascii_lowercase().as_str() {
        "unsafe" => Ok(true),
        "" => Ok(false),
        _ => Err(InvalidValue::default()),
    }
}

fn accept<T>(value: T, valid: bool) -> Result<T, InvalidValue> {
    if valid {
        Ok(value)
    } else {
        Err(InvalidValue::default())
    }
}

/// The longest duration, a hundred years: long enough for "never", and short enough that no sum with a clock overflows.
pub(crate) const FOREVER: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

/// RFC 9113, 6.5.2: a larger window is a connection error of type FLOW_CONTROL_ERROR.
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// RFC 9113, 6.5.2: other frame sizes are a connection error of type PROTOCOL_ERROR.
const FRAME_SIZES: std::ops::RangeInclusive<u32> = 16_384..=16_777_215;
