//! Behaviour of HTTP/1.

#![allow(clippy::unwrap_used, missing_docs)]

mod bodies;
mod carried;
mod closing;
mod early;
mod forms;
mod half_closed;
mod half_sent;
mod requests;
mod responses;
mod upgrades;
