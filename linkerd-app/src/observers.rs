//! The layers that watch requests where they are turned on: spans and the access log.

use crate::{
    access_log::{AccessLogLayer, AccessLogWriter},
    trace::{TraceLayer, Tracer},
};
use linkerd_proxy_core::transport::{ClientInfo, Side};
use std::rc::Rc;
use tower::{ServiceBuilder, util::Either};
use tower_layer::{Identity, Stack};

/// The layers of a connection's requests: spans outside, and the access log, which shares their notes.
pub type Observers =
    Stack<Either<AccessLogLayer, Identity>, Stack<Either<TraceLayer, Identity>, Identity>>;

/// The layers of a client's connection. `None` if all are off: a request pays for one comparison, not for one each.
pub fn observers(
    tracer: Option<&Rc<Tracer>>,
    access_log: Option<&Rc<AccessLogWriter>>,
    side: Side,
    client: &Rc<ClientInfo>,
) -> Option<Observers> {
    let trace = TraceLayer::new(tracer, side, client);
    let access_log = AccessLogLayer::new(access_log, side, client);
    if trace.is_none() && access_log.is_none() {
        return None;
    }
    let layers = ServiceBuilder::new().option_layer(trace);
    Some(layers.option_layer(access_log).into_inner())
}
