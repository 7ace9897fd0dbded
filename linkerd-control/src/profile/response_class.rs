use linkerd_api_proto::destination::{
    HttpStatusRange, ResponseClass as WireClass, ResponseMatch as WireMatch, response_match,
};
use std::ops::RangeInclusive;

/// A class of responses of a [`ProfileRoute`](crate::ProfileRoute).
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseClass(WireClass);

/// A condition of a [`ResponseClass`].
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseMatch(response_match::Match);

impl ResponseClass {
    /// A class of failures.
    pub fn failure(condition: ResponseMatch) -> Self {
        Self(WireClass {
            condition: Some(condition.build()),
            is_failure: true,
        })
    }

    /// A class of successes.
    pub fn success(condition: ResponseMatch) -> Self {
        Self(WireClass {
            condition: Some(condition.build()),
            is_failure: false,
        })
    }

    pub(super) fn build(self) -> WireClass {
        self.0
    }
}

impl ResponseMatch {
    /// Statuses from the first to the last.
    pub fn status(range: RangeInclusive<u32>) -> Self {
        let (min, max) = range.into_inner();
        Self(response_match::Match::Status(HttpStatusRange { min, max }))
    }

    /// All of these conditions.
    pub fn all(all: impl IntoIterator<Item = Self>) -> Self {
        let matches = all.into_iter().map(Self::build).collect();
        Self(response_match::Match::All(response_match::Seq { matches }))
    }

    /// One of these conditions.
    pub fn any(any: impl IntoIterator<Item = Self>) -> Self {
        let matches = any.into_iter().map(Self::build).collect();
        Self(response_match::Match::Any(response_match::Seq { matches }))
    }

    /// The opposite of the condition.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(response_match::Match::Not(Box::new(self.build())))
    }

    fn build(self) -> WireMatch {
        let r#match = Some(self.0);
        WireMatch { r#match }
    }
}
