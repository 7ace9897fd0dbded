//! The outbound side as a whole, in this process, over test sources and streams in memory.
//!
//! The clock is paused: it advances to the next timer when all tasks are idle, so that a wait of seconds takes no time and its
//! length is exact.

mod explicit;
mod http;
mod ingress;
mod layers;
mod opaque;
mod proxy;
mod router;
mod routes;
mod source;
mod tcp_endpoint;
mod upgrades;

use proxy::{TestProxy, backend, forward, in_process, in_process_with, only, policy};
use source::TestSource;
