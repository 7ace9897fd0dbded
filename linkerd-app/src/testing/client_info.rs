//! A client's connection.

use linkerd_proxy_core::{
    drain,
    tls::{NoTlsReason, TlsStatus},
    transport::{ClientInfo, ListenerContext},
};
use std::rc::Rc;

/// A client whose connection was redirected from `10.0.0.9:80`.
pub fn client() -> Rc<ClientInfo> {
    Rc::new(ClientInfo {
        addr: ([10, 0, 0, 7], 40_000).into(),
        local: ([127, 0, 0, 1], 4140).into(),
        orig_dst: Some(([10, 0, 0, 9], 80).into()),
        tls: TlsStatus::None(NoTlsReason::Loopback),
        listener: ListenerContext::new(drain::channel().1),
    })
}
