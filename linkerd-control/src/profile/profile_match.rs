use linkerd_api_proto::destination::{PathMatch, RequestMatch, request_match};
use linkerd_api_proto::http_types::{HttpMethod, http_method};

/// A condition of a [`ProfileRoute`](crate::ProfileRoute).
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileMatch(request_match::Match);

impl ProfileMatch {
    /// A whole path, by a regular expression.
    pub fn path(regex: impl Into<String>) -> Self {
        let regex = regex.into();
        Self(request_match::Match::Path(PathMatch { regex }))
    }

    /// A method.
    pub fn method(name: &str) -> Self {
        use http_method::{Registered, Type};
        let kind = match Registered::from_str_name(name) {
            Some(registered) => Type::Registered(registered.into()),
            None => Type::Unregistered(name.to_owned()),
        };
        let r#type = Some(kind);
        Self(request_match::Match::Method(HttpMethod { r#type }))
    }

    /// All of these conditions.
    pub fn all(all: impl IntoIterator<Item = Self>) -> Self {
        let matches = all.into_iter().map(Self::build).collect();
        Self(request_match::Match::All(request_match::Seq { matches }))
    }

    /// One of these conditions.
    pub fn any(any: impl IntoIterator<Item = Self>) -> Self {
        let matches = any.into_iter().map(Self::build).collect();
        Self(request_match::Match::Any(request_match::Seq { matches }))
    }

    /// The opposite of the condition.
    #[must_use]
    pub fn negated(self) -> Self {
        Self(request_match::Match::Not(Box::new(self.build())))
    }

    pub(super) fn build(self) -> RequestMatch {
        let r#match = Some(self.0);
        RequestMatch { r#match }
    }
}
