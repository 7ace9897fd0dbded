//! The binding of a connection to a client and a host.
//!
//! An application may tie state to a connection: a virtual host, or a client that has authenticated on it. So connections to
//! an application carry the requests of one host and one client, as with the incumbent.

use crate::{http::HttpRequest, tls::Identity};
use http::{HeaderValue, header::HOST};

/// The requests that a connection may carry.
#[derive(Debug)]
pub(super) enum Binding {
    /// All requests.
    Shared,
    /// Not used yet: the first request binds the connection.
    Unused,
    /// Requests of one client to one host.
    Bound(Box<Bound>),
}

/// A client, and the host in its requests.
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

    /// Whether the connection may carry this request.
    pub(super) fn allows<B>(&self, request: &HttpRequest<B>) -> bool {
        match self {
            Self::Shared | Self::Unused => true,
            Self::Bound(bound) => {
                request.headers().get(HOST) == Some(&bound.host)
                    && client(request) == bound.client.as_ref()
            }
        }
    }

    /// Binds an unused connection to a request. `false` if it must not carry another request: this one names no host.
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
