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
//! - **Sits** beside each endpoint of a balancer; a layer at the endpoint calls [admit](BreakerGate::admit) for requests.
//! - **Waits for** nothing: outcomes are counted where they occur, without a task or a channel.
//! - **Bounds**: the floor, the number of endpoints that are never ejected; a window of ten buckets.
//!
//! The decision is made by [`Breaker`], which is pure. [`BreakerGroup`] joins the breakers of one balancer: their rules and
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
