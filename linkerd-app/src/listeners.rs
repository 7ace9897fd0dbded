//! Listeners of the proxy: added and removed while it runs.
//!
//! A listener has one socket for each worker. [`ProxyListeners`] binds them and sends a message to each worker, where
//! [`WorkerListeners`] accepts connections and keeps the [`ListenerTable`]. The listeners of the configuration are
//! added by the same messages ([`ConfiguredSockets`]).
//!
//! Each listener of a worker has a drain of its own below that of the process: removing a listener closes its socket,
//! ends its idle connections and finishes its requests, and the other listeners are not affected.
//!
//! - **Waits for** a worker's answer, and in a removal for the listener's connections, as long as the caller asks.
//! - **Fails as** [`ListenerError`], to the sender of the message; a listener that is refused leaves nothing behind.
//! - **Bounds**: listeners of a worker, [`MAX_LISTENERS`] with those that drain; messages that wait for a worker.

mod configured;
mod message;
mod proxy;
mod table;
#[cfg(test)]
mod tests;
mod worker;

pub use configured::{BindError, ConfiguredSockets, ListenAddresses};
pub use message::{Direction, ListenerError, ListenerMessage, ListenerName, ListenerSpec};
pub use proxy::ProxyListeners;
pub use table::{ListenerId, ListenerTable, MAX_LISTENERS};
pub use worker::WorkerListeners;
