//! The access log of a client's connection.

use super::{
    AccessLogWriter,
    exchange::{LastText, LoggedConnection},
    full,
    record::AccessRecord,
};
use linkerd_proxy_core::{
    http::HttpRequest,
    transport::{ClientInfo, Side},
};
use std::rc::Rc;

/// Logs the requests of a connection.
#[derive(Debug)]
pub struct ConnectionLog {
    writer: Rc<AccessLogWriter>,
    connection: LoggedConnection,
}

impl ConnectionLog {
    /// Logs the requests of a client; `None` if this side has no access log.
    pub fn new(writer: &Rc<AccessLogWriter>, side: Side, client: &Rc<ClientInfo>) -> Option<Self> {
        // The incumbent's log has no outbound requests.
        let is_logged = side == Side::Inbound || !writer.format().is_incumbent();
        is_logged.then(|| Self {
            writer: writer.clone(),
            connection: LoggedConnection {
                side,
                client: client.clone(),
                fields: full::connection_fields(side, client),
                authority: LastText::default(),
            },
        })
    }

    /// The record of a request that arrives.
    pub fn begin(&self, request: &mut HttpRequest) -> Rc<AccessRecord> {
        AccessRecord::new(&self.writer, &self.connection, request)
    }
}
