//! HTTP methods.

use http::Method;
use linkerd_api_proto::http_types::{
    HttpMethod,
    http_method::{Registered, Type},
};

/// A method that is not set, or has an impossible name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidMethod {
    /// The method is not set.
    #[error("a method match is missing")]
    Missing,
    /// There is no method with this name or number.
    #[error("{0:?} is no method")]
    Name(String),
}

/// Converts a method.
pub(super) fn method(wire: HttpMethod) -> Result<Method, InvalidMethod> {
    let name = match wire.r#type.ok_or(InvalidMethod::Missing)? {
        Type::Registered(number) => match Registered::try_from(number) {
            Ok(registered) => registered.as_str_name().to_owned(),
            Err(_) => return Err(InvalidMethod::Name(number.to_string())),
        },
        Type::Unregistered(name) => name,
    };
    Method::from_bytes(name.as_bytes()).map_err(|_| InvalidMethod::Name(name))
}
