//! Subscriptions to the control plane: server-streaming calls, and a cache of their latest state.
//!
//! `linkerd-discover` and `linkerd-profiles` both hold one stream for each target, keep the last good state while the
//! control plane is away, and hand it to the workers as immutable snapshots. Their common parts are here:
//!
//! * [`Subscription`] drives one server-streaming call: opens it, enforces limits, reconnects with backoff;
//! * [`Freshness`] is the age of the state, and whether the control plane still confirms it;
//! * [`Cache`] runs one task per target, publishes its state, and evicts unused targets;
//! * [`RateLimit`] keeps a controller that sends invalid updates from flooding the log.
//!
//! Nothing here knows gRPC or protobuf: a call is a closure that returns a stream of results.
//!
//! **Threads.** Tasks run on the control thread, over the runtime handle that the cache holds. Workers only read
//! watch channels and count their leases; no lock is held over a wait.

mod cache;
mod freshness;
mod occupancy;
mod rate_limit;
mod status;
mod stream;

pub use cache::{Cache, CacheFull, CacheLimits, CacheStats, CachedEntry, Lease, Publisher};
pub use freshness::Freshness;
pub use rate_limit::RateLimit;
pub use status::{Code, Status};
pub use stream::{Call, Event, StreamLimits, StreamSettings, Subscription};
