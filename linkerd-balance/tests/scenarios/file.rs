//! The content of a scenario file.

use serde::{Deserialize, Deserializer, de::Error};
use std::{collections::BTreeMap, time::Duration};

/// A scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The expectation in words.
    #[serde(rename = "what")]
    pub _what: String,
    #[serde(default)]
    pub balancer: BalancerSettings,
    pub endpoints: BTreeMap<String, EndpointSettings>,
    pub phases: Vec<Phase>,
}

/// The settings of the balancer that differ from a policy's usual ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BalancerSettings {
    pub least_pending: bool,
    pub penalty: Option<PenaltySettings>,
    pub slow_start: Option<Span>,
    pub prefer_zone: bool,
    pub affinity: bool,
    pub breaker: Option<BreakerSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PenaltySettings {
    pub penalty: Span,
    pub decay: Span,
}

/// The settings of circuit breakers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerSettings {
    #[serde(default)]
    pub consecutive: u32,
    /// In percent, with the least number of requests within ten seconds.
    pub success_rate: Option<(u16, u32)>,
    /// The first and the longest ejection.
    pub backoff: (Span, Span),
    #[serde(default)]
    pub floor: u32,
}

/// An endpoint, or its change.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointSettings {
    pub latency: Option<Span>,
    /// The requests that it processes at a time; others wait at the endpoint.
    pub capacity: Option<usize>,
    pub weight: Option<u32>,
    pub local: bool,
    /// The share of failures among its responses.
    pub fails: Option<f64>,
    /// Whether it refuses connections.
    pub refuses: Option<bool>,
    /// Whether it closes connections instead of answering.
    pub loses: Option<bool>,
    /// Whether the bodies of its clients break off.
    pub breaks: Option<bool>,
    /// Whether discovery leaves it out.
    pub absent: Option<bool>,
}

/// A time of steady traffic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    #[serde(rename = "for")]
    pub length: Span,
    /// Requests per second, regardless of responses.
    #[serde(default)]
    pub rate: u32,
    /// Clients that wait for a response before they send the next request.
    #[serde(default)]
    pub clients: u32,
    /// The number of keys, which requests use in turn.
    #[serde(default)]
    pub keys: u64,
    /// One in this many requests is a stream of this length.
    pub streams: Option<(u32, Span)>,
    /// Changes of endpoints at the start of the phase.
    #[serde(default)]
    pub change: BTreeMap<String, EndpointSettings>,
    #[serde(default)]
    pub expect: Expectations,
}

/// Bands: the least and the most.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expectations {
    /// The share of the requests that each endpoint gets.
    pub shares: BTreeMap<String, (f64, f64)>,
    /// The requests that each endpoint gets.
    pub requests: BTreeMap<String, (u32, u32)>,
    /// The state of each endpoint at the end, as in `/state`.
    pub states: BTreeMap<String, String>,
    /// The share of successes.
    pub success: Option<(f64, f64)>,
    /// The latency that 99 of 100 requests do not exceed.
    pub p99: Option<(Span, Span)>,
    /// The most requests of an endpoint, relative to the average.
    pub most: Option<(f64, f64)>,
    /// The most streams in flight at an endpoint at the end, relative to the average.
    pub most_in_flight: Option<(f64, f64)>,
    /// The share of keys that went to another endpoint than in the phase before.
    pub moved_keys: Option<(f64, f64)>,
    /// The share of keys that went to several endpoints.
    pub split_keys: Option<(f64, f64)>,
}

/// A duration such as `5ms` or `10s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let unit = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..unit].parse().map_err(D::Error::custom)?;
        match &text[unit..] {
            "ms" => Ok(Self(Duration::from_millis(number))),
            "s" => Ok(Self(Duration::from_secs(number))),
            other => Err(D::Error::custom(format!("{other:?} is no unit"))),
        }
    }
}
