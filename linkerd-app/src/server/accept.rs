//! Taking connections in, in either direction.

use linkerd_proxy_core::{
    task::spawn_local,
    transport::{AcceptErrors, Accepted, Listener},
};
use std::{cell::Cell, time::Duration};

/// Gives each connection a task of its own, until the listener's drain is signalled. `bytes` is set to the size of their
/// futures.
pub async fn accept<F: Future<Output = ()> + 'static>(
    listener: Listener,
    bytes: &Cell<usize>,
    serve: impl Fn(Accepted) -> F,
) {
    let size = size_of::<F>();
    debug_assert!(size <= CONNECTION, "a connection's task takes {size} bytes");
    bytes.set(size);
    let mut drain = listener.context().drain().clone();
    let mut errors = AcceptErrors::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.signaled() => return,
        };
        match accepted {
            Ok(accepted) => {
                let client = &accepted.client;
                tracing::debug!(client = %client.addr, destination = %client.going_to(), "connection accepted");
                spawn_local(serve(accepted));
            }
            Err(error) => {
                // File descriptors may have run out: a pause lets connections end instead of burning the core.
                errors.log(&error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Every connection pays for the largest state that its task may have: what is large and rare belongs in a box.
const CONNECTION: usize = 2816;

const PAUSE: Duration = Duration::from_millis(10);
