//! Listeners of the proxy: added and removed while it runs.
//!
//! A listener has one socket for each worker. [`ProxyListeners`] binds them and sends a message to each worker, where
//! [`WorkerListeners`] accepts connections and keeps the [`ListenerTable`]. The listeners of the configuration are
//! added by the same messages ([`ConfiguredSockets`]).
//!
//! Each listener of a worker has a drain below that of the process: removing a listener closes its socket,
//! ends its idle connections and finishes its requests, and the other listeners are not affected. Connections that are
//! open when the time of the drain is over go on, or are cut off, as the removal says.
//!
//! A listener is replaced by another one of its name: the new one accepts before the old one is removed, on new sockets or,
//! at the same address, on those of the old one, so that no connection attempt is refused. The dialers refuse
//! the addresses of listeners ([`OwnListeners`](linkerd_proxy_core::transport::OwnListeners)) for as long as they accept.
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

pub use configured::{BindError, ConfiguredSockets, ControlSockets, ListenAddresses};
pub use message::{
    Direction, Draining, ListenerDrain, ListenerError, ListenerId, ListenerMessage, ListenerName,
    ListenerSocket, ListenerSpec,
};
pub use proxy::{CutOff, ProxyListeners, Replaced};
pub use table::{ListenerTable, MAX_LISTENERS, merge};
pub use worker::WorkerListeners;
