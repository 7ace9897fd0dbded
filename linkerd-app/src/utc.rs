//! Dates and times in UTC, as RFC 3339 writes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes dates and times. The text of a second is kept for all lines of that second.
#[derive(Debug, Default)]
pub struct UtcClock {
    second: Option<u64>,
    /// `2026-11-20T10:42:03.`
    text: [u8; TO_SECONDS],
}

/// The parts of a second that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fraction {
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl UtcClock {
    /// Adds `2026-11-20T10:42:03.462554761Z`.
    pub fn push(&mut self, out: &mut Vec<u8>, time: SystemTime, fraction: Fraction) {
        let nanos = self.turn_to(time);
        out.extend_from_slice(&self.text);
        push_fraction(out, nanos, fraction);
        out.push(b'Z');
    }

    /// Adds the time of the day: `10:42:03.462`.
    pub fn push_time_of_day(&mut self, out: &mut Vec<u8>, time: SystemTime) {
        let nanos = self.turn_to(time);
        out.extend_from_slice(&self.text[DATE..]);
        push_fraction(out, nanos, Fraction::Millis);
    }

    /// Keeps the text of this time's second. Returns the nanoseconds.
    fn turn_to(&mut self, time: SystemTime) -> u64 {
        let since = since_epoch(time);
        if self.second != Some(since.as_secs()) {
            self.second = Some(since.as_secs());
            let mut text = Vec::with_capacity(TO_SECONDS);
            push_second(&mut text, since.as_secs());
            self.text.copy_from_slice(&text);
        }
        since.subsec_nanos().into()
    }
}

#[inline]
fn push_fraction(out: &mut Vec<u8>, nanos: u64, fraction: Fraction) {
    match fraction {
        Fraction::Millis => push_padded::<3>(out, nanos / 1_000_000),
        Fraction::Micros => push_padded::<6>(out, nanos / 1000),
        Fraction::Nanos => push_padded::<9>(out, nanos),
    }
}

/// Adds `2026-11-20T10:42:03.`
fn push_second(out: &mut Vec<u8>, since: u64) {
    let (year, month, day) = civil(since / DAY);
    push_padded::<4>(out, year);
    for part in [month, day] {
        out.push(b'-');
        push_padded::<2>(out, part);
    }
    out.push(b'T');
    let second = since % DAY;
    push_padded::<2>(out, second / 3600);
    for part in [second / 60 % 60, second % 60] {
        out.push(b':');
        push_padded::<2>(out, part);
    }
    out.push(b'.');
}

/// A clock before 1970 is as wrong as one in 1970.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Adds the last `N` digits of a number.
fn push_padded<const N: usize>(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; N];
    let mut end = N;
    while end > 0 {
        let [tens, ones] = *pair(number % 100);
        digits[end - 1] = ones;
        if end > 1 {
            digits[end - 2] = tens;
        }
        number /= 100;
        end = end.saturating_sub(2);
    }
    out.extend_from_slice(&digits);
}

/// Year, month and day of a number of days since 1970. Years begin in March, so that a leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    (era * 400 + year + next, month, day)
}

const DAY: u64 = 24 * 60 * 60;
/// The length of `2026-11-20T`.
const DATE: usize = 11;
/// The length of `2026-11-20T10:42:03.`: all parts have a fixed number of digits.
const TO_SECONDS: usize = 20;
/// Days of the 400 years after which the calendar repeats.
const DAYS_OF_ERA: u64 = 146_097;
/// Days from the first of March of the year 0.
const DAYS_BEFORE_1970: u64 = 719_468;

/// The two digits of a number below 100.
pub fn pair(number: u64) -> &'static [u8; 2] {
    &PAIRS[number as usize % PAIRS.len()]
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(seconds: u64, nanos: u32) -> String {
        let mut out = Vec::new();
        let time = UNIX_EPOCH + Duration::new(seconds, nanos);
        UtcClock::default().push(&mut out, time, Fraction::Nanos);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_around_leap_days_and_ends_of_years() {
        for (seconds, nanos, expected) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, 0, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, 0, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, 1, "2000-03-01T00:00:00.000000001Z"),
            (1_767_225_599, 999_999_999, "2025-12-31T23:59:59.999999999Z"),
            (1_767_225_600, 0, "2026-01-01T00:00:00.000000000Z"),
            (1_795_171_323, 462_554_761, "2026-11-20T10:42:03.462554761Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(utc(seconds, nanos), expected);
        }
    }

    #[test]
    fn a_time_of_day_has_milliseconds() {
        let mut out = Vec::new();
        let time = UNIX_EPOCH + Duration::from_millis(86_399_005);
        UtcClock::default().push_time_of_day(&mut out, time);
        assert_eq!(out, b"23:59:59.005");
    }

    #[test]
    fn the_text_of_a_second_is_made_anew_for_the_next() {
        let mut clock = UtcClock::default();
        for (millis, expected) in [
            (1, "1970-01-01T00:00:00.001000Z"),
            (999, "1970-01-01T00:00:00.999000Z"),
            (1000, "1970-01-01T00:00:01.000000Z"),
            (0, "1970-01-01T00:00:00.000000Z"),
        ] {
            let mut out = Vec::new();
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            clock.push(&mut out, time, Fraction::Micros);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
