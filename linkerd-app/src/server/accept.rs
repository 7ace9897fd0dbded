//! Acceptance of connections, in either direction.

use linkerd_proxy_core::{
    task::spawn_local,
    transport::{AcceptErrors, Accepted, Listener},
};
use std::{cell::Cell, time::Duration};

/// Serves each connection in a task, until the listener's drain is signalled. `bytes` is set to the size of the tasks' futures.
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

/// The most bytes of a connection's task. Each connection pays for its largest state: a large and rare one belongs in a box.
const CONNECTION: usize = 2816;

const PAUSE: Duration = Duration::from_millis(10);
