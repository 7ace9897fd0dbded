//! The server spans of a client's connection.

use super::{exchange::TracedConnection, server_span::ServerSpan, tracer::Tracer};
use linkerd_proxy_core::{
    http::HttpRequest,
    transport::{ClientInfo, Side},
};
use std::rc::Rc;

/// Begins the server spans of a connection's sampled requests.
#[derive(Debug)]
pub struct ConnectionTracer {
    tracer: Rc<Tracer>,
    connection: Rc<TracedConnection>,
}

impl ConnectionTracer {
    /// Traces the requests of a client.
    pub fn new(tracer: &Rc<Tracer>, side: Side, client: &Rc<ClientInfo>) -> Self {
        let client = client.clone();
        Self {
            tracer: tracer.clone(),
            connection: Rc::new(TracedConnection {
                side,
                client,
                with_query: tracer.with_query,
            }),
        }
    }

    /// The span of a request that arrives; `None` if it is not sampled.
    pub fn begin(&self, request: &mut HttpRequest) -> Option<Rc<ServerSpan>> {
        let notes = self.tracer.begin(request)?;
        let span = ServerSpan::new(&self.tracer, &self.connection, request, notes);
        Some(span)
    }
}
