//! Requests to the admin server, and the refusal of those from elsewhere.

use super::{
    context::AdminContext,
    origin,
    reply::{self, Reply},
};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use std::{net::SocketAddr, time::Duration};

/// A request and its client.
pub(super) struct AdminRequest {
    pub(super) http: Request<Incoming>,
    pub(super) peer: SocketAddr,
}

impl AdminRequest {
    /// Refuses requests that only this host may make, if they come from elsewhere or from another site's page in a
    /// local browser.
    pub(super) fn refuse_remote(&self, admin: &AdminContext) -> Option<Reply> {
        let local = self.peer.ip().to_canonical().is_loopback();
        if !local {
            return Some(reply::text(StatusCode::FORBIDDEN, LOCAL_ONLY));
        }
        self.refuse_foreign(admin)
    }

    /// Refuses requests that a browser makes for another site's page.
    pub(super) fn refuse_foreign(&self, admin: &AdminContext) -> Option<Reply> {
        origin::refuse_foreign(&self.http, admin.hostname.as_deref())
    }
}

const LOCAL_ONLY: &str = "Requests are only permitted from localhost.";

/// Limit for a request's head, once begun, and for its body.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);
