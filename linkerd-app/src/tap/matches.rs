//! Conditions of a tap on requests.
//!
//! The destination of a request and its labels are not known when it arrives, but when an endpoint has it. A condition is
//! therefore evaluated twice: its result is `None` as long as it depends on unknown facts.

use super::event::{TappedRequest, TappedWay};
use http::Method;
use ipnet::IpNet;
use linkerd_proxy_core::transport::Side;
use std::{fmt, net::SocketAddr, ops::RangeInclusive};

/// A condition on requests, as `io.linkerd.proxy.tap.ObserveRequest.Match` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapMatch {
    /// All of the conditions are met.
    All(Vec<TapMatch>),
    /// One of the conditions is met.
    Any(Vec<TapMatch>),
    /// The condition is not met.
    Not(Box<TapMatch>),
    /// The direction of the traffic.
    Direction(Side),
    /// The address of the client.
    Source(AddrMatch),
    /// The address of the endpoint.
    Destination(AddrMatch),
    /// The scheme, `http` where the request names none.
    Scheme(String),
    /// The method.
    Method(Method),
    /// The authority of the request's target, or else its `Host`. Compared without regard to case.
    Authority(TextMatch),
    /// The path, without the query.
    Path(TextMatch),
    /// A label of the endpoint.
    DestinationLabel(String, String),
    /// A label of the route.
    RouteLabel(String, String),
}

/// A condition on an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddrMatch {
    /// The network of the IP address.
    Net(IpNet),
    /// The range of the port.
    Ports(RangeInclusive<u16>),
}

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextMatch {
    /// The whole text.
    Exact(String),
    /// Its beginning.
    Prefix(String),
}

impl TapMatch {
    /// Whether a request meets the condition; `None` if that depends on `way`, which is not known yet.
    pub fn find(&self, request: &TappedRequest, way: Option<&TappedWay>) -> Option<bool> {
        let find = |condition: &Self| condition.find(request, way);
        match self {
            Self::All(all) => decide(all.iter().map(find), false),
            Self::Any(any) => decide(any.iter().map(find), true),
            Self::Not(not) => find(not).map(|met| !met),
            Self::Direction(side) => Some(request.side == *side),
            Self::Source(addr) => Some(addr.is_met(request.source)),
            Self::Destination(addr) => {
                let destination = way?.destination;
                Some(destination.is_some_and(|destination| addr.is_met(destination)))
            }
            Self::Scheme(scheme) => Some(request.scheme.eq_ignore_ascii_case(scheme)),
            Self::Method(method) => Some(request.method == *method),
            Self::Authority(text) => Some(text.is_met_ignoring_case(&request.authority)),
            Self::Path(text) => Some(text.is_met(&request.path)),
            Self::DestinationLabel(key, value) => Some(has(&way?.destination_labels, key, value)),
            Self::RouteLabel(key, value) => Some(has(&way?.route_labels, key, value)),
        }
    }
}

impl AddrMatch {
    fn is_met(&self, addr: SocketAddr) -> bool {
        match self {
            Self::Net(net) => net.contains(&addr.ip().to_canonical()),
            Self::Ports(ports) => ports.contains(&addr.port()),
        }
    }
}

impl TextMatch {
    fn is_met(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Prefix(prefix) => text.starts_with(prefix),
        }
    }

    fn is_met_ignoring_case(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text.eq_ignore_ascii_case(exact),
            Self::Prefix(prefix) => text
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        }
    }
}

impl fmt::Display for TapMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(all) if all.is_empty() => f.write_str("all requests"),
            Self::All(all) => joined(f, all, " and "),
            Self::Any(any) if any.is_empty() => f.write_str("no request"),
            Self::Any(any) => joined(f, any, " or "),
            Self::Not(not) => write!(f, "not ({not})"),
            Self::Direction(Side::Inbound) => f.write_str("inbound"),
            Self::Direction(_) => f.write_str("outbound"),
            Self::Source(addr) => write!(f, "source {addr}"),
            Self::Destination(addr) => write!(f, "destination {addr}"),
            Self::Scheme(scheme) => write!(f, "scheme {scheme}"),
            Self::Method(method) => write!(f, "method {method}"),
            Self::Authority(text) => write!(f, "authority {text}"),
            Self::Path(text) => write!(f, "path {text}"),
            Self::DestinationLabel(key, value) => write!(f, "destination label {key}={value:?}"),
            Self::RouteLabel(key, value) => write!(f, "route label {key}={value:?}"),
        }
    }
}

impl fmt::Display for AddrMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => net.fmt(f),
            Self::Ports(ports) if ports.start() == ports.end() => {
                write!(f, "port {}", ports.start())
            }
            Self::Ports(ports) => write!(f, "ports {}-{}", ports.start(), ports.end()),
        }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => write!(f, "{text:?}"),
            Self::Prefix(text) => write!(f, "{text:?}*"),
        }
    }
}

/// `enough` if one condition is that; the opposite if all are; unknown otherwise.
fn decide(conditions: impl Iterator<Item = Option<bool>>, enough: bool) -> Option<bool> {
    let mut decided = Some(!enough);
    for met in conditions {
        match met {
            Some(met) if met == enough => return Some(enough),
            Some(_) => {}
            None => decided = None,
        }
    }
    decided
}

fn has(labels: &[(String, String)], key: &str, value: &str) -> bool {
    labels.iter().any(|(k, v)| k == key && v == value)
}

fn joined(f: &mut fmt::Formatter<'_>, conditions: &[TapMatch], word: &str) -> fmt::Result {
    for (index, condition) in conditions.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        match condition {
            TapMatch::All(inner) | TapMatch::Any(inner) if inner.len() > 1 => {
                write!(f, "({condition})")?;
            }
            _ => write!(f, "{condition}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
