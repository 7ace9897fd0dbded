//! Circuit breakers: an endpoint that fails too often is ejected for a while.
//!
//! ```text
//!            trips, and the floor allows it
//!   closed ───────────────────────────────────▶ open: ejected for one step of the backoff
//!     ▲                                          │  ▲
//!     │ the probe succeeds,                      │  │ the probe fails:
//!     │ or the floor needs the endpoint          │  │ the next, longer step
//!     │                                          ▼  │
//!     └──────────────────────────────────────── probing: exactly one request
//! ```
//!
//! - **Sits** beside each endpoint of a balancer; a layer at the endpoint asks it to [admit](BreakerGate::admit) requests.
//! - **Waits for** nothing: outcomes are counted where they are seen, without a task or a channel.
//! - **Bounds**: the floor, which leaves a number of endpoints in the choice; a window of ten buckets.
//!
//! The decision is [`Breaker`], which is pure. [`BreakerGroup`] holds the breakers of one balancer together: their rules and
//! their floor.

mod classify;
mod endpoint;
mod machine;
mod pass;
mod window;

pub use endpoint::{BreakerGroup, EndpointBreaker};
pub use machine::{
    Admission, Breaker, BreakerChange, BreakerState, EjectedFor, Outcome, OutcomeKind, TripCause,
};
pub use pass::{BreakerGate, BreakerPass};
pub use window::{Counts, SuccessWindow};
