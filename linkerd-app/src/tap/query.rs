//! The conditions of a tap as parameters of a URL, from the command line or of a request.

use super::{
    active::TapSettings,
    matches::{AddrMatch, TapMatch, TextMatch},
};
use http::Method;
use ipnet::IpNet;
use linkerd_proxy_core::transport::Side;
use std::net::{IpAddr, SocketAddr};

/// The texts of a tap's conditions, all of which must be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapFields {
    /// `inbound` or `outbound`.
    pub direction: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// The scheme.
    pub scheme: Option<String>,
    /// The authority, with or without its port.
    pub authority: Option<String>,
    /// The beginning of the path.
    pub path: Option<String>,
    /// The client: an IP address, a network, an address with a port, or `:port`.
    pub from: Option<String>,
    /// The endpoint, in the same forms.
    pub to: Option<String>,
    /// Labels of the endpoint, `name=value`.
    pub to_labels: Vec<String>,
    /// Labels of the route, `name=value`.
    pub route_labels: Vec<String>,
    /// Whether events have headers: `true` or `false`.
    pub headers: Option<String>,
    /// The most requests.
    pub limit: Option<String>,
    /// The most requests in a second.
    pub max_rps: Option<String>,
}

/// A condition that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {value:?} is not {expected}")]
pub struct InvalidTapQuery {
    /// The parameter.
    pub parameter: &'static str,
    /// Its value, cut.
    pub value: String,
    /// Valid values.
    pub expected: &'static str,
}

impl TapFields {
    /// Reads the parameters of a URL.
    pub fn of_parameters(query: &str) -> Result<Self, InvalidTapQuery> {
        let mut fields = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            let field = match &*name {
                "direction" => &mut fields.direction,
                "method" => &mut fields.method,
                "scheme" => &mut fields.scheme,
                "authority" => &mut fields.authority,
                "path" => &mut fields.path,
                "from" => &mut fields.from,
                "to" => &mut fields.to,
                "headers" => &mut fields.headers,
                "limit" => &mut fields.limit,
                "max_rps" => &mut fields.max_rps,
                "to_label" | "route_label" => {
                    let labels = match &*name {
                        "to_label" => &mut fields.to_labels,
                        _ => &mut fields.route_labels,
                    };
                    if labels.len() >= MAX_LABELS {
                        return Err(invalid("query", &name, "one with at most 32 labels"));
                    }
                    labels.push(value);
                    continue;
                }
                _ => return Err(invalid("query", &name, PARAMETERS)),
            };
            *field = Some(value);
        }
        Ok(fields)
    }

    /// The parameters of a URL.
    pub fn to_parameters(&self) -> String {
        let mut parameters = form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("direction", &self.direction),
            ("method", &self.method),
            ("scheme", &self.scheme),
            ("authority", &self.authority),
            ("path", &self.path),
            ("from", &self.from),
            ("to", &self.to),
            ("headers", &self.headers),
            ("limit", &self.limit),
            ("max_rps", &self.max_rps),
        ] {
            if let Some(value) = value {
                parameters.append_pair(name, value);
            }
        }
        for label in &self.to_labels {
            parameters.append_pair("to_label", label);
        }
        for label in &self.route_labels {
            parameters.append_pair("route_label", label);
        }
        parameters.finish()
    }

    /// Checks the fields. `client` opens the tap.
    pub fn check(&self, client: String) -> Result<TapSettings, InvalidTapQuery> {
        let mut all = Vec::new();
        if let Some(direction) = &self.direction {
            all.push(TapMatch::Direction(match &**direction {
                "inbound" => Side::Inbound,
                "outbound" => Side::Outbound,
                _ => return Err(invalid("direction", direction, "inbound or outbound")),
            }));
        }
        if let Some(method) = &self.method {
            let parsed = method.to_ascii_uppercase().parse::<Method>();
            let parsed = parsed.map_err(|_| invalid("method", method, "a method, such as GET"))?;
            all.push(TapMatch::Method(parsed));
        }
        if let Some(scheme) = &self.scheme {
            all.push(TapMatch::Scheme(scheme.clone()));
        }
        if let Some(authority) = &self.authority {
            // With any port, unless it names one.
            let exact = TapMatch::Authority(TextMatch::Exact(authority.clone()));
            let prefix = TapMatch::Authority(TextMatch::Prefix(format!("{authority}:")));
            all.push(TapMatch::Any(vec![exact, prefix]));
        }
        if let Some(path) = &self.path {
            if !path.starts_with('/') {
                return Err(invalid(
                    "path",
                    path,
                    "the beginning of a path, such as /api",
                ));
            }
            all.push(TapMatch::Path(TextMatch::Prefix(path.clone())));
        }
        if let Some(from) = &self.from {
            all.push(addr("from", from, TapMatch::Source)?);
        }
        if let Some(to) = &self.to {
            all.push(addr("to", to, TapMatch::Destination)?);
        }
        for text in &self.to_labels {
            let (name, value) = label("to_label", text)?;
            all.push(TapMatch::DestinationLabel(name, value));
        }
        for text in &self.route_labels {
            let (name, value) = label("route_label", text)?;
            all.push(TapMatch::RouteLabel(name, value));
        }
        Ok(TapSettings {
            matches: TapMatch::All(all),
            limit: number("limit", self.limit.as_deref())?.unwrap_or(u64::MAX),
            max_rps: number("max_rps", self.max_rps.as_deref())?.unwrap_or(DEFAULT_RPS),
            headers: match self.headers.as_deref() {
                None | Some("false") => false,
                Some("true" | "") => true,
                Some(other) => return Err(invalid("headers", other, "true or false")),
            },
            client,
        })
    }
}

/// A condition on an address.
fn addr(
    parameter: &'static str,
    text: &str,
    of: fn(AddrMatch) -> TapMatch,
) -> Result<TapMatch, InvalidTapQuery> {
    let port = |port: u16| of(AddrMatch::Ports(port..=port));
    let ip = |ip: IpAddr| of(AddrMatch::Net(ip.to_canonical().into()));
    if let Some(number) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        Ok(port(number))
    } else if let Ok(addr) = text.parse::<SocketAddr>() {
        Ok(TapMatch::All(vec![ip(addr.ip()), port(addr.port())]))
    } else if let Ok(addr) = text.parse::<IpAddr>() {
        Ok(ip(addr))
    } else if let Ok(net) = text.parse::<IpNet>() {
        Ok(of(AddrMatch::Net(net)))
    } else {
        Err(invalid(parameter, text, ADDRESS))
    }
}

fn label(parameter: &'static str, text: &str) -> Result<(String, String), InvalidTapQuery> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(invalid(parameter, text, "name=value")),
    }
}

/// A number from 1.
fn number<N: std::str::FromStr + PartialOrd + Default>(
    parameter: &'static str,
    text: Option<&str>,
) -> Result<Option<N>, InvalidTapQuery> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse().ok().filter(|number| *number > N::default());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(invalid(parameter, text, "a number of at least 1")),
    }
}

fn invalid(parameter: &'static str, value: &str, expected: &'static str) -> InvalidTapQuery {
    InvalidTapQuery {
        parameter,
        value: value.chars().take(80).collect(),
        expected,
    }
}

/// Requests in a second by default: as many as a person can scroll past. The incumbent's command has the same default.
const DEFAULT_RPS: u32 = 100;

const MAX_LABELS: usize = 32;
const ADDRESS: &str = "an IP address, a network, an address with its port, or :port";
const PARAMETERS: &str = "one of direction, method, scheme, authority, path, from, to, to_label, route_label, headers, \
                          limit, max_rps";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<TapSettings, InvalidTapQuery> {
        TapFields::of_parameters(query)?.check("test".to_owned())
    }

    #[test]
    fn parameters_are_conditions_that_must_all_be_met() {
        let query = "direction=inbound&method=get&authority=web&path=/api&from=10.0.0.0/8&to=:8080&to_label=pod=web-1&limit=3";
        let settings = of(query).unwrap();
        assert_eq!(
            settings.matches.to_string(),
            "inbound and method GET and (authority \"web\" or authority \"web:\"*) and path \"/api\"* and source 10.0.0.0/8 \
             and destination port 8080 and destination label pod=\"web-1\""
        );
        assert_eq!((settings.limit, settings.max_rps), (3, 100));
        assert!(!settings.headers);
        assert_eq!(of("").unwrap().matches.to_string(), "all requests");
    }

    #[test]
    fn fields_survive_the_way_through_a_url() {
        let fields = TapFields {
            path: Some("/a b&c=ü".to_owned()),
            to: Some("[::1]:80".to_owned()),
            to_labels: vec!["a=b&c".to_owned(), "d==".to_owned()],
            headers: Some("true".to_owned()),
            ..TapFields::default()
        };
        assert_eq!(
            TapFields::of_parameters(&fields.to_parameters()),
            Ok(fields)
        );
    }

    #[test]
    fn nonsense_is_named() {
        for (query, parameter) in [
            ("direction=up", "direction"),
            ("method=G T", "method"),
            ("path=api", "path"),
            ("to=web", "to"),
            ("from=:99999", "from"),
            ("to_label=pod", "to_label"),
            ("route_label==x", "route_label"),
            ("limit=0", "limit"),
            ("max_rps=-1", "max_rps"),
            ("headers=some", "headers"),
            ("color=red", "query"),
        ] {
            let invalid = of(query).unwrap_err();
            assert_eq!(invalid.parameter, parameter, "{query}");
        }
        let many = "to_label=a=b&".repeat(100);
        assert!(of(&many).is_err());
    }
}
