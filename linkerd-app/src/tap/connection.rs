//! The taps of a client's connection.

use super::{record::TapRecord, worker_taps::WorkerTaps};
use linkerd_proxy_core::{
    http::HttpRequest,
    transport::{ClientInfo, Side},
};
use std::rc::Rc;

/// Shows the requests of a connection to the taps that ask for them.
#[derive(Debug)]
pub struct ConnectionTaps {
    taps: Rc<WorkerTaps>,
    side: Side,
    client: Rc<ClientInfo>,
}

impl ConnectionTaps {
    /// Shows the requests of a client.
    pub fn new(taps: &Rc<WorkerTaps>, side: Side, client: &Rc<ClientInfo>) -> Self {
        Self {
            taps: taps.clone(),
            side,
            client: client.clone(),
        }
    }

    /// Whether there are no taps.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// The record of a request that arrives; `None` if no tap asks for it.
    #[cold]
    pub fn begin(&self, request: &mut HttpRequest) -> Option<Rc<TapRecord>> {
        TapRecord::begin(&self.taps, self.side, &self.client, request)
    }
}
