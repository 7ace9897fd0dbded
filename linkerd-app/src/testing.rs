//! Parts that the tests of several stages share.

mod client;
mod client_info;
mod config;
mod endpoint;
mod metrics;
mod network;
mod stage;
mod wire;

pub use client::TestClient;
pub use client_info::client;
pub use config::config;
pub use endpoint::{TestEndpoint, TestResponse, text};
pub use metrics::TestMetrics;
pub use network::{STREAM_BUFFER, TestNetwork};
pub use stage::{BelowStage, MockStage, assert_readiness_passes, grpc_request, request, response};
pub use wire::TestWire;
