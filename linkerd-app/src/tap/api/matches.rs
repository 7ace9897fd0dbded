//! Reads the request of the Tap API.

use crate::tap::{
    active::TapSettings,
    matches::{AddrMatch, TapMatch, TextMatch},
};
use http::Method;
use ipnet::IpNet;
use linkerd_api_proto::{
    http_types::{Scheme, scheme},
    tap::{
        ObserveRequest,
        observe_request::{
            Extract, Match,
            extract::{self, http as extract_http},
            r#match::{
                self, Http, Label, Seq, Tcp,
                http::{self as http_match, StringMatch, string_match},
                tcp,
            },
        },
    },
};
use std::{net::IpAddr, ops::RangeInclusive};

/// A request that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMatch {
    /// No request is asked for.
    #[error("limit must be positive")]
    Limit,
    /// A field of the condition is invalid.
    #[error("{field}: {problem}")]
    Field {
        /// The path of the field.
        field: String,
        /// The problem with it.
        problem: String,
    },
}

/// The settings of a tap for `client`, by a request of the Tap API.
pub fn read_request(request: ObserveRequest, client: String) -> Result<TapSettings, InvalidMatch> {
    if request.limit == 0 {
        return Err(InvalidMatch::Limit);
    }
    let mut reader = MatchReader {
        left: MAX_CONDITIONS,
    };
    let matches = required("match", request.r#match)?;
    Ok(TapSettings {
        matches: reader.condition("match", matches, MAX_DEPTH)?,
        limit: request.limit.into(),
        max_rps: u32::MAX,
        headers: wants_headers(request.extract),
        client,
    })
}

fn wants_headers(extract: Option<Extract>) -> bool {
    let Some(extract::Extract::Http(http)) = extract.and_then(|extract| extract.extract) else {
        return false;
    };
    matches!(http.extract, Some(extract_http::Extract::Headers(_)))
}

/// Reads a condition of bounded size.
struct MatchReader {
    left: usize,
}

impl MatchReader {
    fn condition(
        &mut self,
        field: &str,
        condition: Match,
        depth: usize,
    ) -> Result<TapMatch, InvalidMatch> {
        if self.left == 0 {
            return Err(invalid(field, "more than 256 conditions"));
        }
        self.left -= 1;
        let Some(deeper) = depth.checked_sub(1) else {
            return Err(invalid(field, "conditions are nested more than 32 deep"));
        };
        Ok(match required(field, condition.r#match)? {
            r#match::Match::All(seq) => {
                TapMatch::All(self.conditions(&format!("{field}.all"), seq, deeper)?)
            }
            r#match::Match::Any(seq) => {
                TapMatch::Any(self.conditions(&format!("{field}.any"), seq, deeper)?)
            }
            r#match::Match::Not(not) => {
                let not = self.condition(&format!("{field}.not"), *not, deeper)?;
                TapMatch::Not(Box::new(not))
            }
            r#match::Match::Source(tcp) => TapMatch::Source(addr(&format!("{field}.source"), tcp)?),
            r#match::Match::Destination(tcp) => {
                TapMatch::Destination(addr(&format!("{field}.destination"), tcp)?)
            }
            r#match::Match::Http(http) => of_http(&format!("{field}.http"), http)?,
            r#match::Match::DestinationLabel(Label { key, value }) => {
                TapMatch::DestinationLabel(key, value)
            }
            r#match::Match::RouteLabel(Label { key, value }) => TapMatch::RouteLabel(key, value),
        })
    }

    fn conditions(
        &mut self,
        field: &str,
        seq: Seq,
        depth: usize,
    ) -> Result<Vec<TapMatch>, InvalidMatch> {
        let conditions = seq.matches.into_iter().enumerate();
        conditions
            .map(|(index, condition)| {
                self.condition(&format!("{field}[{index}]"), condition, depth)
            })
            .collect()
    }
}

fn addr(field: &str, tcp: Tcp) -> Result<AddrMatch, InvalidMatch> {
    match required(field, tcp.r#match)? {
        tcp::Match::Netmask(netmask) => {
            let field = format!("{field}.netmask");
            let ip = required(&format!("{field}.ip"), netmask.ip)?;
            let ip = IpAddr::try_from(ip)
                .map_err(|error| invalid(&format!("{field}.ip"), error.to_string()))?;
            // The mask is the length of the prefix.
            let net = u8::try_from(netmask.mask).ok();
            let net = net.and_then(|length| IpNet::new(ip, length).ok());
            net.map(AddrMatch::Net)
                .ok_or_else(|| invalid(&format!("{field}.mask"), "not the length of a prefix"))
        }
        tcp::Match::Ports(range) => {
            let field = format!("{field}.ports");
            ports(range.min, range.max)
                .map(AddrMatch::Ports)
                .ok_or_else(|| invalid(&field, "not a range of ports"))
        }
    }
}

/// A range of ports. Either end may be left out: the range is then one port.
fn ports(min: u32, max: u32) -> Option<RangeInclusive<u16>> {
    let min = if min == 0 { max } else { min };
    let max = if max == 0 { min } else { max };
    let (min, max) = (u16::try_from(min).ok()?, u16::try_from(max).ok()?);
    (min > 0 && min <= max).then_some(min..=max)
}

fn of_http(field: &str, http: Http) -> Result<TapMatch, InvalidMatch> {
    Ok(match required(field, http.r#match)? {
        http_match::Match::Scheme(scheme) => {
            TapMatch::Scheme(of_scheme(&format!("{field}.scheme"), scheme)?)
        }
        http_match::Match::Method(method) => {
            let method = Method::try_from(method)
                .map_err(|error| invalid(&format!("{field}.method"), error.to_string()))?;
            TapMatch::Method(method)
        }
        http_match::Match::Authority(authority) => {
            TapMatch::Authority(text(&format!("{field}.authority"), authority)?)
        }
        http_match::Match::Path(path) => TapMatch::Path(text(&format!("{field}.path"), path)?),
    })
}

fn of_scheme(field: &str, scheme: Scheme) -> Result<String, InvalidMatch> {
    match required(field, scheme.r#type)? {
        scheme::Type::Registered(known) => match scheme::Registered::try_from(known) {
            Ok(scheme::Registered::Http) => Ok("http".to_owned()),
            Ok(scheme::Registered::Https) => Ok("https".to_owned()),
            Err(_) => Err(invalid(field, format!("unknown registered scheme {known}"))),
        },
        scheme::Type::Unregistered(other) => Ok(other),
    }
}

fn text(field: &str, text: StringMatch) -> Result<TextMatch, InvalidMatch> {
    Ok(match required(field, text.r#match)? {
        string_match::Match::Exact(exact) => TextMatch::Exact(exact),
        string_match::Match::Prefix(prefix) => TextMatch::Prefix(prefix),
    })
}

fn required<T>(field: &str, value: Option<T>) -> Result<T, InvalidMatch> {
    value.ok_or_else(|| invalid(field, "missing required field"))
}

fn invalid(field: &str, problem: impl Into<String>) -> InvalidMatch {
    InvalidMatch::Field {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

/// Conditions of one tap: each is evaluated for each request.
const MAX_CONDITIONS: usize = 256;

/// The deepest nesting of conditions.
const MAX_DEPTH: usize = 32;

#[cfg(test)]
mod tests;
