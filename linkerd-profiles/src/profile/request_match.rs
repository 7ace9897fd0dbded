//! Conditions on the requests of a profile's route.

use crate::route::Pattern;
use http::{Method, Request};

/// A condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileMatch {
    /// All of these hold; always met if empty.
    All(Vec<ProfileMatch>),
    /// One of these holds; never met if empty.
    Any(Vec<ProfileMatch>),
    /// This does not hold.
    Not(Box<ProfileMatch>),
    /// The whole path matches a regular expression.
    Path(Pattern),
    /// The method.
    Method(Method),
}

impl ProfileMatch {
    /// The condition that every request meets.
    pub const EVERY: Self = Self::All(Vec::new());

    /// Whether the request meets the condition.
    pub fn is_met<B>(&self, request: &Request<B>) -> bool {
        match self {
            Self::All(all) => all.iter().all(|condition| condition.is_met(request)),
            Self::Any(any) => any.iter().any(|condition| condition.is_met(request)),
            Self::Not(condition) => !condition.is_met(request),
            Self::Path(pattern) => pattern.matches(request.uri().path()),
            Self::Method(method) => request.method() == method,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ProfileMatch {
        ProfileMatch::Path(Pattern::new(text).unwrap())
    }

    #[test]
    fn conditions_are_combined() {
        use ProfileMatch::{All, Any, Not};
        let method = ProfileMatch::Method(Method::POST);
        let request = Request::post("http://web.test/books/12?x=/other")
            .body(())
            .unwrap();
        for (condition, is_met) in [
            (ProfileMatch::EVERY, true),
            (Any(Vec::new()), false),
            (path("/books/[0-9]+"), true),
            (path("/books"), false),
            (path("books/12"), false),
            (method.clone(), true),
            (ProfileMatch::Method(Method::GET), false),
            (Not(Box::new(method.clone())), false),
            (All(vec![path("/.*"), method.clone()]), true),
            (All(vec![path("/other"), method.clone()]), false),
            (Any(vec![path("/other"), method.clone()]), true),
            (
                Any(vec![path("/other"), Not(Box::new(method.clone()))]),
                false,
            ),
        ] {
            assert_eq!(condition.is_met(&request), is_met, "{condition:?}");
        }
    }
}
