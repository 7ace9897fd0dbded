//! The values of annotations. Values that the proxy or its init container would refuse are errors here.

use ipnet::IpNet;
use std::{net::IpAddr, str::FromStr};

pub(super) fn text(value: &str) -> Result<String, String> {
    match value.is_empty() || value.contains(char::is_control) {
        true => Err(format!("{value:?} is no value")),
        false => Ok(value.to_owned()),
    }
}

pub(super) fn one_of(value: &str, values: &[&str]) -> Result<String, String> {
    match values.contains(&value) {
        true => Ok(value.to_owned()),
        false => Err(format!("{value:?} is none of {}", values.join(", "))),
    }
}

/// `true` for the word `yes`, `false` for the word `no`.
pub(super) fn choice(value: &str, yes: &str, no: &str) -> Result<bool, String> {
    Ok(one_of(value, &[yes, no])? == yes)
}

pub(super) fn bool_value(value: &str) -> Result<bool, String> {
    choice(value, "true", "false")
}

/// `enabled` and `disabled`, or a boolean.
pub(super) fn switch(value: &str) -> Result<bool, String> {
    let values = ["enabled", "disabled", "true", "false"];
    Ok(matches!(&*one_of(value, &values)?, "enabled" | "true"))
}

pub(super) fn number<T: FromStr>(value: &str) -> Result<T, String> {
    let number = value.parse();
    number.map_err(|_| format!("{value:?} is not a number that is allowed here"))
}

pub(super) fn port(value: &str) -> Result<u16, String> {
    match value.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{value:?} is not a port")),
    }
}

/// Ports and port ranges, without spaces.
pub(super) fn ports(value: &str) -> Result<String, String> {
    let ranges: Result<Vec<_>, _> = items(value).map(range_text).collect();
    Ok(ranges?.join(","))
}

/// Ports, ranges, and names of container ports.
pub(super) fn ports_or_names(value: &str) -> Result<String, String> {
    let ports: Result<Vec<_>, _> = items(value)
        .map(|item| match is_port_name(item) {
            true => Ok(item.to_owned()),
            false => range_text(item),
        })
        .collect();
    Ok(ports?.join(","))
}

/// The first and the last port of a range, or of a single one.
pub(crate) fn port_range(value: &str) -> Result<(u16, u16), String> {
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    let (first, last) = (port(first.trim())?, port(last.trim())?);
    match first <= last {
        true => Ok((first, last)),
        false => Err(format!("{value:?} ends before it begins")),
    }
}

/// Networks and addresses. A bare address counts as a network.
pub(super) fn subnets(value: &str) -> Result<String, String> {
    let network = |item: &str| match item.parse::<IpNet>().is_ok() {
        true => Ok(item.to_owned()),
        false => match item.parse::<IpAddr>() {
            Ok(addr) => Ok(IpNet::from(addr).to_string()),
            Err(_) => Err(format!("{item:?} is not a network, such as 10.0.0.0/8")),
        },
    };
    let networks: Result<Vec<_>, _> = items(value).map(network).collect();
    Ok(networks?.join(","))
}

/// A duration in the proxy's form, which has one unit.
pub(super) fn duration(value: &str) -> Result<String, String> {
    let parts = duration_parts(value)?;
    match parts.as_slice() {
        [_] => Ok(value.to_owned()),
        parts => Ok(format!("{}ms", parts.iter().sum::<u64>())),
    }
}

/// A duration in whole seconds, rounded up.
pub(super) fn seconds(value: &str) -> Result<u64, String> {
    let milliseconds: u64 = duration_parts(value)?.iter().sum();
    Ok(milliseconds.div_ceil(1000))
}

/// The numeric value of a quantity, such as `100m` or `1Gi`.
pub(super) fn quantity(value: &str) -> Result<f64, String> {
    let error = || format!("{value:?} is not a quantity, such as 100m or 64Mi");
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let digits = value.trim_start_matches(is_number);
    let number: f64 = value[..value.len() - digits.len()]
        .parse()
        .map_err(|_| error())?;
    let factors = [
        ("", 1.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
    ];
    let factor = factors.iter().find(|(unit, _)| *unit == digits);
    factor.map(|(_, factor)| number * factor).ok_or_else(error)
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    let items = value.split(',').map(str::trim);
    items.filter(|item| !item.is_empty())
}

fn range_text(item: &str) -> Result<String, String> {
    match port_range(item)? {
        (first, last) if first == last => Ok(first.to_string()),
        (first, last) => Ok(format!("{first}-{last}")),
    }
}

fn is_port_name(item: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    item.len() <= 15 && item.chars().all(is_name) && item.contains(|c: char| c.is_ascii_lowercase())
}

/// The milliseconds of each part of a duration, such as `1m30s`.
fn duration_parts(value: &str) -> Result<Vec<u64>, String> {
    let error = || format!("{value:?} is not a duration, such as 10s or 500ms");
    let mut parts = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number: u64 = rest[..rest.len() - after.len()]
            .parse()
            .map_err(|_| error())?;
        let unit = after.find(|c: char| c.is_ascii_digit());
        let (unit, next) = after.split_at(unit.unwrap_or(after.len()));
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(error()),
        };
        parts.push(number.checked_mul(factor).ok_or_else(error)?);
        rest = next;
    }
    match parts.is_empty() {
        true => Err(error()),
        false => Ok(parts),
    }
}
