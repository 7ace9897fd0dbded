//! HTTP: serving, calling, and what is done to a message on its way.

mod settings;

pub use settings::{FlowControl, Http2Settings, KeepAlive, PoolSettings, QueueSettings};
