//! The outbound side as a whole, in this process: sources of the tests' own, and streams in memory.
//!
//! The clock is paused: it runs on to the next timer when no task has anything to do, so that a wait of seconds takes no
//! time and its length is exact.

mod client;
mod endpoint;
mod http;
mod layers;
mod network;
mod opaque;
mod proxy;
mod router;
mod routes;
mod source;

use client::TestClient;
use endpoint::{TestEndpoint, TestResponse};
use network::TestNetwork;
use proxy::{TestProxy, backend, forward, in_process, policy};
use source::TestSource;
