//! Explanation of the rule that a table finds for a request, and of the mismatch of each other rule.

use super::{
    FoundRule, RouteRule, RouteTable,
    condition_miss::ConditionMiss,
    request_host,
    request_match::{FIRST_WINS, Met, Rank, RequestMatch},
};
use http::Request;
use std::{collections::HashSet, fmt};

/// The explanation of a table's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableExplanation {
    /// The rule of the request, as [`RouteTable::find`] returns it.
    pub found: Option<FoundRule>,
    /// The index of the condition by which that rule was found. `None` if the rule has no condition, or there is no rule.
    pub condition: Option<usize>,
    /// Other rules: those for the request's host first, at most 50.
    pub others: Vec<RuleExplanation>,
    /// The number of further rules.
    pub more: usize,
}

/// The reason why a rule was not chosen for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleExplanation {
    /// The index of the rule.
    pub index: usize,
    /// The reason.
    pub miss: RuleMiss,
}

/// A reason why a rule was not chosen for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleMiss {
    /// The rule is for other hosts.
    Host {
        /// The host of the request, or empty.
        actual: String,
    },
    /// No condition of the rule is met.
    Conditions {
        /// The first part that fails, for each of at most 8 conditions.
        misses: Vec<ConditionMiss>,
        /// The number of further conditions.
        more: usize,
    },
    /// The rule matches, but the chosen rule is for a more specific host.
    LessSpecificHost,
    /// The rule matches, but the chosen rule is more specific.
    LessSpecific {
        /// The deciding difference.
        by: &'static str,
    },
    /// The rule matches, but an earlier rule takes the request.
    Later,
}

impl RouteTable {
    /// Explains the result of [`find`](Self::find). Meant for people: unlike `find` it allocates, and checks each rule.
    pub fn explain<B>(&self, request: &Request<B>) -> TableExplanation {
        let found = self.find(request);
        let host = request_host(request).unwrap_or_default();
        let levels: Vec<_> = self.hosts.of(host).collect();
        let winner = found.map(|found| Winner {
            level: levels
                .iter()
                .position(|rules| self.best(rules, request).is_some())
                .unwrap_or_default(),
            rank: self.rules[found.index].meets(request).map(|met| met.rank),
            is_grpc: matches!(
                self.rules[found.index].matches.first(),
                Some(RequestMatch::Grpc(_) | RequestMatch::Every)
            ),
        });
        let of_host = levels.iter().enumerate().flat_map(|(level, rules)| {
            let rules = rules.iter();
            rules.map(move |index| (*index, Some(level)))
        });
        let of_others = (0..self.rules.len()).map(|index| (index, None));
        let taken = found.map(|found| found.index);
        let mut seen = HashSet::new();
        let others: Vec<_> = of_host
            .chain(of_others)
            .filter(|(index, _)| Some(*index) != taken && seen.insert(*index))
            .take(MAX_EXPLAINED)
            .map(|(index, level)| RuleExplanation {
                index,
                miss: match level {
                    None => RuleMiss::host(host),
                    Some(level) => self.rules[index].miss(request, level, winner.as_ref()),
                },
            })
            .collect();
        TableExplanation {
            more: self.rules.len() - others.len() - usize::from(found.is_some()),
            condition: taken.and_then(|index| self.rules[index].met_condition(request)),
            found,
            others,
        }
    }
}

/// The specificity of the chosen rule.
struct Winner {
    /// The index of its host in the order of specificity.
    level: usize,
    rank: Option<Rank>,
    is_grpc: bool,
}

impl RouteRule {
    /// The reason why a rule for the request's host was not chosen.
    fn miss<B>(&self, request: &Request<B>, level: usize, winner: Option<&Winner>) -> RuleMiss {
        let Some(Met { rank, .. }) = self.meets(request) else {
            let misses = self.matches.iter().take(MAX_CONDITIONS);
            return RuleMiss::Conditions {
                misses: misses
                    .filter_map(|condition| ConditionMiss::of(condition, request))
                    .collect(),
                more: self.matches.len().saturating_sub(MAX_CONDITIONS),
            };
        };
        let Some(winner) = winner else {
            return RuleMiss::Later;
        };
        if level > winner.level {
            return RuleMiss::LessSpecificHost;
        }
        let names = if winner.is_grpc { &GRPC } else { &HTTP };
        let winner = winner.rank.unwrap_or_default();
        if winner == FIRST_WINS {
            return RuleMiss::Later;
        }
        let difference = winner.iter().zip(&rank).position(|(a, b)| a != b);
        match difference {
            Some(index) => RuleMiss::LessSpecific { by: names[index] },
            None => RuleMiss::Later,
        }
    }

    /// The index of the most specific condition that the request meets.
    fn met_condition<B>(&self, request: &Request<B>) -> Option<usize> {
        let mut best: Option<(usize, Met)> = None;
        for (index, condition) in self.matches.iter().enumerate() {
            if let Some(met) = condition.meets(request)
                && best.is_none_or(|(_, best)| met.rank > best.rank)
            {
                best = Some((index, met));
            }
        }
        best.map(|(index, _)| index)
    }
}

impl RuleMiss {
    fn host(actual: &str) -> Self {
        let actual = actual.chars().take(MAX_HOST).collect();
        Self::Host { actual }
    }
}

impl fmt::Display for RuleMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { actual } if actual.is_empty() => {
                f.write_str("it is for certain hosts, and the request names none")
            }
            Self::Host { actual } => write!(f, "it is for other hosts than {actual}"),
            Self::Conditions { misses, more } => {
                for (index, miss) in misses.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; or " };
                    write!(f, "{separator}{miss}")?;
                }
                match more {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more conditions"),
                }
            }
            Self::LessSpecificHost => {
                f.write_str("it matches, but the rule that takes the request has a closer host")
            }
            Self::LessSpecific { by } => {
                write!(f, "it matches, but the rule that takes the request {by}")
            }
            Self::Later => f.write_str("it matches, but a rule before it takes the request"),
        }
    }
}

/// The parts of the rank of an HTTP condition.
const HTTP: [&str; 5] = [
    "has a longer path",
    "has the exact path",
    "has more headers",
    "has more query parameters",
    "names the method",
];

/// The parts of the rank of a gRPC condition.
const GRPC: [&str; 5] = [
    "names the service",
    "names the method",
    "has more headers",
    "",
    "",
];

/// The most other rules that are explained: a person reads no more, and a table may have 10,000.
const MAX_EXPLAINED: usize = 50;

/// The conditions of a rule that are explained.
const MAX_CONDITIONS: usize = 8;

/// Characters of a host that are shown: the longest possible DNS name.
const MAX_HOST: usize = 255;

#[cfg(test)]
mod tests;
