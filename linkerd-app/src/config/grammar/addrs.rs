//! Addresses, ports and networks.

use super::names::dns_name;
use super::value::{InvalidValue, items};
use crate::config::Networks;
use linkerd_control::bracketed_ipv6;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address of a server: an IP address and port, or a name to resolve.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Addr {
    /// An address that needs no resolution.
    Ip(SocketAddr),
    /// A name and a port.
    Name {
        /// The name in lower case; a trailing dot, which makes it absolute, is kept.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Addr {
    /// Whether this is the machine itself: a loopback address, or the absolute name `localhost.`. Without its dot,
    /// `localhost` is a relative name that search domains may lead elsewhere.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Ip(addr) => addr.ip().is_loopback(),
            Self::Name { host, .. } => host == "localhost.",
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addr) => addr.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// An IP address and a port.
pub fn socket_addr(text: &str) -> Result<SocketAddr, InvalidValue> {
    text.parse().map_err(|_| {
        if let Some(error) = without_brackets(text) {
            error
        } else if text.parse::<Ipv4Addr>().is_ok() {
            InvalidValue::fix("add the port")
        } else if addr(text).is_ok() {
            InvalidValue::fix("write the address instead of the name")
        } else {
            InvalidValue::default()
        }
    })
}

/// One or two socket addresses.
pub fn socket_addrs(text: &str) -> Result<Vec<SocketAddr>, InvalidValue> {
    let addrs = text
        .split(',')
        .map(socket_addr)
        .collect::<Result<Vec<_>, _>>()?;
    if addrs.len() > 2 {
        return Err(InvalidValue::fix(format!(
            "leave {} of the {} addresses out",
            addrs.len() - 2,
            addrs.len()
        )));
    }
    Ok(addrs)
}

/// A socket address, or a DNS name and a port.
pub fn addr(text: &str) -> Result<Addr, InvalidValue> {
    if let Ok(addr) = text.parse() {
        return Ok(Addr::Ip(addr));
    }
    if let Some(error) = without_brackets(text) {
        return Err(error);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(
            match text.parse::<Ipv4Addr>().is_ok() || dns_name(text).is_ok() {
                true => InvalidValue::fix("add the port"),
                false => InvalidValue::default(),
            },
        );
    };
    let port = port.parse().map_err(|_| InvalidValue::default())?;
    Ok(Addr::Name {
        host: dns_name(host)?,
        port,
    })
}

/// The error of an IPv6 address without brackets, or without a port.
fn without_brackets(text: &str) -> Option<InvalidValue> {
    let form = bracketed_ipv6(text)?;
    let fix = format!("write an IPv6 address in brackets, with a port: {form}");
    Some(InvalidValue::fix(fix))
}

/// IP addresses without prefix lengths.
pub fn ip_set(text: &str) -> Result<HashSet<IpAddr>, InvalidValue> {
    let ip = |item: &str| {
        item.parse().map_err(|_| match item.contains('/') {
            true => InvalidValue::fix(format!(
                "write the addresses of {item:?} one by one: networks are not accepted"
            )),
            false => InvalidValue::default(),
        })
    };
    text.split(',').map(ip).collect()
}

/// Ports and inclusive ranges of ports. Blanks around items and around `-` don't matter, nor do empty items.
pub fn port_set(text: &str) -> Result<BTreeSet<u16>, InvalidValue> {
    let port = |text: &str| {
        text.trim()
            .parse::<u16>()
            .map_err(|_| InvalidValue::default())
    };
    let mut ports = BTreeSet::new();
    for item in items(text) {
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(item)?, port(item)?),
        };
        if last < first {
            return Err(InvalidValue::fix(format!(
                "the range {item:?} ends before it begins: write {last}-{first}"
            )));
        }
        ports.extend(first..=last);
    }
    Ok(ports)
}

/// Networks with their prefix lengths. Blanks around items don't matter, nor do empty items.
pub fn networks(text: &str) -> Result<Networks, InvalidValue> {
    let network = |item: &str| {
        item.parse().map_err(|_| match item.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => InvalidValue::fix(format!(
                "add the length of the prefix: {ip}/32 for the address alone"
            )),
            Ok(IpAddr::V6(ip)) => InvalidValue::fix(format!(
                "add the length of the prefix: {ip}/128 for the address alone"
            )),
            Err(_) => InvalidValue::default(),
        })
    };
    Ok(Networks::new(
        items(text).map(network).collect::<Result<_, _>>()?,
    ))
}
