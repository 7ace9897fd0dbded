//! Taps: live requests of both directions, as their clients ask for them.
//!
//! A tap is opened on the control thread, by the Tap API on the control port or by `/tap` of the admin server, and handed to
//! the workers as a snapshot. A layer in both directions looks at each request while there is a tap, and sends its events
//! through a bounded queue, without ever waiting. Without a tap it costs a request one comparison.
//!
//! - **sits** beside the access log, whose notes of the stages it shares.
//! - **bounds**: [`MAX_TAPS`] taps; of each, [`MAX_EVENTS`] events and [`MAX_QUEUED_BYTES`] that its client has not read.
//!   Further events are dropped and counted.
//! - **never** delays a request, holds a body or a query.
//!
//! | file | content |
//! |---|---|
//! | `matches.rs` | conditions on requests |
//! | `event.rs`, `headers.rs` | events, and the headers that they show |
//! | `active.rs`, `rate.rs` | one tap: its limits, its queue, its counts |
//! | `registry.rs` | all taps, and the snapshots for the workers |
//! | `worker_taps.rs`, `connection.rs`, `record.rs` | a worker's side: a request from its arrival to its end |
//! | `labels.rs` | the labels of a request's way |
//! | `server.rs`, `api.rs` | the Tap API on the control port |
//! | `json.rs`, `query.rs` | the form of the admin server: events as JSON, conditions as parameters |
//!
//! [`MAX_TAPS`]: registry::MAX_TAPS
//! [`MAX_EVENTS`]: active::MAX_EVENTS
//! [`MAX_QUEUED_BYTES`]: active::MAX_QUEUED_BYTES

mod active;
mod api;
mod connection;
mod event;
mod headers;
mod json;
mod labels;
mod matches;
mod query;
mod rate;
mod record;
mod registry;
mod server;
#[cfg(test)]
mod tests;
mod worker_taps;

pub use active::{EventStream, Tap, TapEnd, TapSettings};
pub use api::{InvalidMatch, TapApi, TapClient, read_request};
pub use connection::ConnectionTaps;
pub use event::{
    Headers, TapEvent, TapEventKind, TappedEnd, TappedRequest, TappedResponse, TappedWay,
};
pub use json::{closed_line, dropped_line, event_line};
pub use matches::{AddrMatch, TapMatch, TextMatch};
pub use query::{InvalidTapQuery, TapFields};
pub use record::TapRecord;
pub use registry::{OpenTap, TapRefused, TapRegistry, write_dropped};
pub use server::TapServer;
pub use worker_taps::WorkerTaps;
