//! The outbound side as a whole, in this process: sources of the tests' own, and streams in memory.
//!
//! The clock is paused: it runs on to the next timer when no task has anything to do, so that a wait of seconds takes no
//! time and its length is exact.

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
