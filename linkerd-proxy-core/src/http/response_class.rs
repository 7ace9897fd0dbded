//! Classes of responses, which a route of a service profile declares.

use http::StatusCode;
use std::ops::RangeInclusive;

/// The response classes of a route, in order. The first whose condition holds decides whether a response is a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseClasses(Vec<ResponseClass>);

/// A class of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseClass {
    /// The condition on a response.
    pub condition: ResponseMatch,
    /// Whether its responses are failures.
    pub is_failure: bool,
}

/// A condition on a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseMatch {
    /// All of these hold.
    All(Vec<ResponseMatch>),
    /// One of these holds.
    Any(Vec<ResponseMatch>),
    /// This does not hold.
    Not(Box<ResponseMatch>),
    /// The status is in the range.
    Status(RangeInclusive<u16>),
}

/// The class of a response by its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassMatch {
    /// The response is in a class of successes.
    Success,
    /// The response is in a class of failures.
    Failure,
    /// The response is in no class: its gRPC code decides, or else its status.
    None,
}

impl ResponseClasses {
    /// Classes in the order of their precedence: the first match counts.
    pub fn new(classes: Vec<ResponseClass>) -> Self {
        Self(classes)
    }

    /// Whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The class of a response.
    pub fn find(&self, status: StatusCode) -> ClassMatch {
        let found = self.0.iter().find(|class| class.condition.is_met(status));
        match found.map(|class| class.is_failure) {
            Some(true) => ClassMatch::Failure,
            Some(false) => ClassMatch::Success,
            None => ClassMatch::None,
        }
    }
}

impl ResponseMatch {
    /// Whether the condition holds.
    fn is_met(&self, status: StatusCode) -> bool {
        match self {
            Self::All(all) => all.iter().all(|condition| condition.is_met(status)),
            Self::Any(any) => any.iter().any(|condition| condition.is_met(status)),
            Self::Not(condition) => !condition.is_met(status),
            Self::Status(range) => range.contains(&status.as_u16()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(condition: ResponseMatch, is_failure: bool) -> ResponseClass {
        ResponseClass {
            condition,
            is_failure,
        }
    }

    #[test]
    fn the_first_class_that_has_the_response_decides() {
        use ResponseMatch::{All, Any, Not, Status};
        let classes = ResponseClasses::new(vec![
            class(Status(404..=404), true),
            class(Any(vec![Status(503..=503), Status(418..=418)]), false),
            class(
                All(vec![Status(500..=599), Not(Box::new(Status(501..=501)))]),
                true,
            ),
            class(Status(400..=599), false),
        ]);
        for (status, expected) in [
            (404, ClassMatch::Failure),
            (503, ClassMatch::Success),
            (418, ClassMatch::Success),
            (500, ClassMatch::Failure),
            (501, ClassMatch::Success),
            (400, ClassMatch::Success),
            (200, ClassMatch::None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(classes.find(status), expected, "{status}");
        }
    }

    #[test]
    fn without_classes_nothing_is_classified() {
        let classes = ResponseClasses::default();
        assert!(classes.is_empty());
        assert_eq!(classes.find(StatusCode::OK), ClassMatch::None);
    }
}
