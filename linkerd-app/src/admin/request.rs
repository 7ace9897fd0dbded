//! Requests to the admin server, and the refusal of those from elsewhere.

use super::{
    context::AdminContext,
    origin,
    reply::{self, Reply},
};
use crate::config::ConsoleAccess;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use std::{net::SocketAddr, rc::Rc, time::Duration};
use tokio::sync::Notify;

/// A request and its client.
pub(super) struct AdminRequest {
    pub(super) http: Request<Incoming>,
    pub(super) client: AdminClient,
}

/// The client of a connection.
#[derive(Clone)]
pub(super) struct AdminClient {
    /// Its address.
    pub(super) addr: SocketAddr,
    /// Notified to close the connection: its reader takes nothing.
    pub(super) stalled: Rc<Notify>,
}

impl AdminClient {
    /// The client at an address.
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            stalled: Rc::default(),
        }
    }
}

impl AdminRequest {
    /// Whether the client is on this host.
    pub(super) fn is_local(&self) -> bool {
        self.client.addr.ip().to_canonical().is_loopback()
    }

    /// Refuses requests that only this host may make, if they come from elsewhere or from another site's page in a
    /// local browser.
    pub(super) fn refuse_remote(&self, admin: &AdminContext) -> Option<Reply> {
        if !self.is_local() {
            return Some(reply::text(StatusCode::FORBIDDEN, LOCAL_ONLY));
        }
        self.refuse_foreign(admin)
    }

    /// Refuses requests to read the proxy's state from clients that may not open the console either.
    pub(super) fn refuse_readers(&self, admin: &AdminContext) -> Option<Reply> {
        match admin.console {
            ConsoleAccess::All => self.refuse_foreign(admin),
            ConsoleAccess::Loopback | ConsoleAccess::Off => self.refuse_remote(admin),
        }
    }

    /// Refuses requests that a browser makes for another site's page.
    pub(super) fn refuse_foreign(&self, admin: &AdminContext) -> Option<Reply> {
        origin::refuse_foreign(&self.http, admin.hostname.as_deref())
    }
}

/// A body, within the limits of size and time.
pub(super) async fn read_body(body: Incoming) -> Result<Bytes, Reply> {
    let body = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(READ_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => {
            let status = match error.is::<LengthLimitError>() {
                true => StatusCode::PAYLOAD_TOO_LARGE,
                false => StatusCode::BAD_REQUEST,
            };
            Err(reply::bare(status, error.to_string()))
        }
        Err(_) => Err(reply::empty(StatusCode::REQUEST_TIMEOUT)),
    }
}

const LOCAL_ONLY: &str = "Requests are only permitted from localhost.";

/// Limit for a request's head, once begun, and for its body.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Real log filters and requests have a few hundred bytes.
pub(super) const MAX_BODY: usize = 64 * 1024;
