//! The control plane of a Linkerd cluster as a source of endpoints, policies and profiles: its gRPC calls, and the
//! conversion of its messages into the types of `linkerd-discover` and `linkerd-profiles`. Spans are sent to a collector
//! in the same way.
//!
//! **Sits** between the control plane's connections and the tasks that follow destinations and targets. One call is one
//! stream of one destination or target.
//!
//! **Invariants**
//! * No message can panic. An invalid endpoint is left out; an invalid policy is converted as a whole into one that refuses
//!   traffic with its reason; both are reported in the update as data.
//! * Protobuf types do not leave this crate.
//!
//! **Never** retries a call, logs, or keeps state between two messages.

pub mod convert;

mod client;
mod endpoints;
mod identity;
mod policies;
mod profiles;
mod server_policies;
mod svids;
mod traces;

pub use client::ApiService;
pub use endpoints::GrpcEndpointSource;
pub use identity::GrpcCertificateSource;
pub use policies::GrpcPolicySource;
pub use profiles::GrpcProfileSource;
pub use server_policies::GrpcServerPolicySource;
pub use svids::GrpcSvidSource;
pub use traces::GrpcSpanExporter;

#[cfg(test)]
mod tests;
