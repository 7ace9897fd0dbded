//! The state of endpoints while a request waits for one of them.

use crate::{Error, Unavailable};
use std::{net::SocketAddr, rc::Rc};

/// A queue of requests that wait for an endpoint.
pub trait EndpointQueue {
    /// The state of the endpoints: none of them is ready now.
    fn unready(&self) -> Unready;
}

/// The state of endpoints none of which is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// The state for which a longer wait would have failed.
    pub cause: Unavailable,
    /// The last error of an endpoint.
    pub error: Option<UnreadyEndpoint>,
}

/// An endpoint that does not accept connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyEndpoint {
    /// Its name.
    pub name: String,
    /// Its address, if that is known.
    pub addr: Option<SocketAddr>,
    /// The error of the last attempt to connect.
    pub text: Rc<str>,
}

impl Unready {
    /// The error of a request whose limit has passed while it waited: its text and hint say why no endpoint was ready.
    pub fn explain(&self, error: Error) -> Error {
        let text = match &self.error {
            Some(UnreadyEndpoint { name, text, .. }) => format!("endpoint {name}: {text}"),
            None => self.cause.describe().to_owned(),
        };
        let detail = format!("{error}; the backend had no ready endpoint: {text}");
        let error = error.detail(detail).waited(self.cause);
        match self.error.as_ref().and_then(|endpoint| endpoint.addr) {
            Some(addr) => error.peer(addr),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    #[test]
    fn the_text_the_hint_and_the_peer_are_those_of_the_endpoint() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 9));
        let unready = Unready {
            cause: Unavailable::Unreachable,
            error: Some(UnreadyEndpoint {
                name: addr.to_string(),
                addr: Some(addr),
                text: "Connection refused (os error 111)".into(),
            }),
        };
        let limit = Error::new(Reason::ProfileTimeout).detail("timeout after 1s");
        let error = unready.explain(limit);
        assert_eq!(
            error.to_string(),
            "timeout after 1s; the backend had no ready endpoint: endpoint 127.0.0.1:9: Connection refused (os error 111)"
        );
        assert_eq!(error.reason(), Reason::ProfileTimeout);
        assert_eq!(error.peer_addr(), Some(addr));
        let failfast = Reason::Failfast(unready.cause);
        assert_eq!(error.hint(), failfast.hint());
        assert_eq!(error.origin(), failfast.row().origin);
    }

    #[test]
    fn without_an_error_the_state_is_told() {
        let unready = Unready {
            cause: Unavailable::NoEndpoints,
            error: None,
        };
        let error = unready.explain(Reason::RequestTimeout.into());
        assert!(
            error
                .to_string()
                .ends_with("; the backend had no ready endpoint: it has no endpoints")
        );
        assert_eq!(error.peer_addr(), None);
    }
}
