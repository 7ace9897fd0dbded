//! The balancer: power of two choices over peak-EWMA load, in the request's own task.
//!
//! - **Sits** above the endpoints of one backend, one balancer for each worker.
//! - **Waits for** an endpoint to be ready, at most for the failfast timeout; then fails fast until one is ready.
//! - **Fails as** `Failfast`, `Unavailable` or `QueueFull`, with the state of the endpoints as the cause; or as the last
//!   endpoint that was tried.
//! - **Bounds**: the queue. Endpoints are bounded by discovery.
//! - **Metrics**: `*_balancer_*`, resolved by the caller ([`Metrics`]).
//!
//! The decisions are pure: [`PeakEwma`] estimates, [`p2c`] picks, [`Failfast`] gives up, a [`breaker`] ejects. [`Balance`] is the
//! service; its own task ([`driver`]) applies updates and polls endpoints that are not ready. A request that finds a ready
//! endpoint touches neither that task nor a channel.
//!
//! [`Preferences`] are optional: session affinity, the proxy's own zone, slow start. Without them a request pays one check of
//! an `Option`.
//!
//! The balancer never knows the nature of an endpoint, nor the source of updates.

pub mod affinity;
pub mod breaker;
mod driver;
mod ewma;
mod failfast;
mod inspect;
mod latency_quantile;
mod load;
mod load_settings;
mod member;
mod message;
mod metrics;
pub mod p2c;
mod params;
mod penalty;
mod preferences;
mod queue;
mod service;
mod slow_start;
mod state;
mod traits;
mod unready;
mod wait;
mod zone;

pub use affinity::Affinity;
pub use ewma::PeakEwma;
pub use failfast::Failfast;
pub use latency_quantile::LatencyQuantile;
pub use load::LoadHandle;
pub use load_settings::{LoadKind, LoadSettings};
pub use member::Member;
pub use message::{Arrival, MeasuredResponse};
pub use metrics::Metrics;
pub use params::Params;
pub use preferences::Preferences;
pub use service::{Balance, BalanceFuture};
pub use slow_start::SlowStart;
pub use zone::ZonePreference;
