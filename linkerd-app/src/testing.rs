//! Parts that the tests of several stages share.

mod metrics;
mod stage;

pub use metrics::TestMetrics;
pub use stage::{BelowStage, MockStage, assert_readiness_passes, request, response};
