//! Whose requests a connection to an endpoint carries.
//!
//! An application may know a connection by what it carried before: a virtual host, or a client that has authenticated itself
//! with it. So an application's connections are bound to a host and a client, as with the incumbent.

use crate::{http::HttpRequest, tls::Identity};
use http::{HeaderValue, header::HOST};

/// Whose requests a connection may carry.
#[derive(Debug)]
pub(super) enum Binding {
    /// Everybody's.
    Shared,
    /// Those of whom it is used for first.
    Unused,
    /// Those of one client to one host.
    Bound(Box<Bound>),
}

/// A client and the host that it asks for.
#[derive(Debug)]
pub(super) struct Bound {
    host: HeaderValue,
    client: Option<Identity>,
}

impl Binding {
    /// The binding of a new connection.
    pub(super) fn new(is_bound: bool) -> Self {
        match is_bound {
            true => Self::Unused,
            false => Self::Shared,
        }
    }

    /// Whether the connection may carry a request.
    pub(super) fn allows<B>(&self, request: &HttpRequest<B>) -> bool {
        match self {
            Self::Shared | Self::Unused => true,
            Self::Bound(bound) => {
                request.headers().get(HOST) == Some(&bound.host)
                    && client(request) == bound.client.as_ref()
            }
        }
    }

    /// Binds an unused connection to a request. `false` if it must not carry another: the request names no host.
    pub(super) fn bind<B>(&mut self, request: &HttpRequest<B>) -> bool {
        if let Self::Unused = self {
            let host = request.headers().get(HOST);
            let Some(host) = host.filter(|host| !host.is_empty()) else {
                return false;
            };
            *self = Self::Bound(Box::new(Bound {
                host: host.clone(),
                client: client(request).cloned(),
            }));
        }
        true
    }
}

fn client<B>(request: &HttpRequest<B>) -> Option<&Identity> {
    request.context().client.as_ref()?.tls.identity()
}
