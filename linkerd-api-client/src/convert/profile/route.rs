//! Routes of profiles.

use super::ignored::Ignored;
use crate::convert::{
    duration::duration,
    method::{InvalidMethod, method},
    patterns::{PatternError, Patterns},
};
use http::StatusCode;
use linkerd_api_proto::destination::{
    HttpStatusRange, RequestMatch, ResponseClass as WireClass, ResponseMatch as WireResponseMatch,
    Route, request_match, response_match,
};
use linkerd_profiles::{ProfileMatch, ProfileRoute};
use linkerd_proxy_core::{
    endpoint::bounded_label,
    http::{ResponseClass, ResponseClasses, ResponseMatch},
};
use std::sync::Arc;

/// The reason why a condition cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidMatch {
    /// The condition is not set.
    #[error("a condition is missing")]
    Missing,
    /// The regular expression cannot be used.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The method is impossible.
    #[error(transparent)]
    Method(#[from] InvalidMethod),
    /// A bound of the statuses is impossible.
    #[error("{0} is no status code")]
    Status(u32),
    /// A list of conditions on responses has no usable condition.
    #[error("a list of conditions is empty")]
    Empty,
    /// Conditions are nested more deeply than can be evaluated safely.
    #[error("conditions are nested more than {MAX_NESTING} deep")]
    Nesting,
}

/// Converts the routes of one profile.
pub(super) struct Routes<'a> {
    /// Whether the profile has a valid retry budget.
    pub(super) has_budget: bool,
    pub(super) ignored: &'a mut Ignored,
    patterns: Patterns,
    /// The index of the present route, from 0.
    index: usize,
}

impl<'a> Routes<'a> {
    pub(super) fn new(has_budget: bool, ignored: &'a mut Ignored) -> Self {
        Self {
            has_budget,
            ignored,
            patterns: Patterns::default(),
            index: 0,
        }
    }

    /// The usable routes, in their order.
    pub(super) fn convert(mut self, routes: Vec<Route>) -> Vec<Arc<ProfileRoute>> {
        let mut converted = Vec::with_capacity(routes.len());
        for (index, route) in routes.into_iter().enumerate() {
            self.index = index;
            match self.route(route) {
                Ok(route) => converted.push(Arc::new(route)),
                Err(error) => self.ignore("route", error),
            }
        }
        converted
    }

    fn route(&mut self, wire: Route) -> Result<ProfileRoute, InvalidMatch> {
        let condition = wire.condition.ok_or(InvalidMatch::Missing)?;
        Ok(ProfileRoute {
            condition: self.request_match(condition, 0)?,
            labels: {
                let labels = wire.metrics_labels.into_iter();
                let bounded = labels.map(|(key, value)| (bounded_label(key), bounded_label(value)));
                bounded.take(MAX_LABELS).collect()
            },
            classes: self.classes(wire.response_classes),
            timeout: wire.timeout.and_then(|timeout| {
                let positive = duration(&timeout).filter(|timeout| !timeout.is_zero());
                if positive.is_none() {
                    self.ignore("the timeout of route", "it is not positive");
                }
                positive
            }),
            is_retryable: wire.is_retryable && {
                if !self.has_budget {
                    self.ignore("the retries of route", "the profile has no valid budget");
                }
                self.has_budget
            },
        })
    }

    fn request_match(
        &mut self,
        wire: RequestMatch,
        depth: usize,
    ) -> Result<ProfileMatch, InvalidMatch> {
        use request_match::{Match, Seq};
        if depth > MAX_NESTING {
            return Err(InvalidMatch::Nesting);
        }
        let mut list = |list: Seq| {
            let mut converted = Vec::with_capacity(list.matches.len());
            for part in list.matches {
                match self.request_match(part, depth + 1) {
                    Ok(part) => converted.push(part),
                    Err(error) => self.ignore("a condition of route", error),
                }
            }
            converted
        };
        Ok(match wire.r#match.ok_or(InvalidMatch::Missing)? {
            Match::All(all) => ProfileMatch::All(list(all)),
            Match::Any(any) => ProfileMatch::Any(list(any)),
            Match::Not(not) => ProfileMatch::Not(Box::new(self.request_match(*not, depth + 1)?)),
            Match::Path(path) => ProfileMatch::Path(self.patterns.get(path.regex)?),
            Match::Method(wire) => ProfileMatch::Method(method(wire)?),
        })
    }

    fn classes(&mut self, wire: Vec<WireClass>) -> ResponseClasses {
        let mut classes = Vec::with_capacity(wire.len());
        for class in wire {
            let condition = class.condition.ok_or(InvalidMatch::Missing);
            match condition.and_then(|condition| self.response_match(condition, 0)) {
                Ok(condition) => classes.push(ResponseClass {
                    condition,
                    is_failure: class.is_failure,
                }),
                Err(error) => self.ignore("a response class of route", error),
            }
        }
        ResponseClasses::new(classes)
    }

    fn response_match(
        &mut self,
        wire: WireResponseMatch,
        depth: usize,
    ) -> Result<ResponseMatch, InvalidMatch> {
        use response_match::{Match, Seq};
        if depth > MAX_NESTING {
            return Err(InvalidMatch::Nesting);
        }
        let mut list = |list: Seq| {
            let mut converted = Vec::with_capacity(list.matches.len());
            for part in list.matches {
                match self.response_match(part, depth + 1) {
                    Ok(part) => converted.push(part),
                    Err(error) => self.ignore("a response condition of route", error),
                }
            }
            match converted.is_empty() {
                true => Err(InvalidMatch::Empty),
                false => Ok(converted),
            }
        };
        Ok(match wire.r#match.ok_or(InvalidMatch::Missing)? {
            Match::All(all) => ResponseMatch::All(list(all)?),
            Match::Any(any) => ResponseMatch::Any(list(any)?),
            Match::Not(not) => ResponseMatch::Not(Box::new(self.response_match(*not, depth + 1)?)),
            Match::Status(range) => statuses(range)?,
        })
    }

    fn ignore(&mut self, part: &str, error: impl std::fmt::Display) {
        let index = self.index;
        self.ignored.add(format_args!("{part} {index}"), error);
    }
}

fn statuses(range: HttpStatusRange) -> Result<ResponseMatch, InvalidMatch> {
    let status = |number: u32| {
        let status = u16::try_from(number).ok();
        let status = status.filter(|status| StatusCode::from_u16(*status).is_ok());
        status.ok_or(InvalidMatch::Status(number))
    };
    Ok(ResponseMatch::Status(
        status(range.min)?..=status(range.max)?,
    ))
}

/// Far deeper than in real profiles, and shallow enough for the stack of a thread that converts, evaluates or drops a condition.
const MAX_NESTING: usize = 50;

/// The most labels of a route.
const MAX_LABELS: usize = 64;
