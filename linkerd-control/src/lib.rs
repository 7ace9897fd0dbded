//! The controller: the control plane's half of the mesh, in one process and without a cluster.
//!
//! **Contents.** A [`Controller`] holds endpoints, profiles and policies in memory and serves them over the gRPC APIs
//! of a sidecar: `Destination.Get`, `Destination.GetProfile`, `OutboundPolicies.Get`, `OutboundPolicies.Watch`,
//! `InboundServerPolicies.GetPort`, `InboundServerPolicies.WatchPort`, and `Identity.Certify` if it has an [`Authority`]. It
//! has two users:
//!
//! - **Tests** start a proxy against it ([`ProxyBuilder`]), and script it: push and remove endpoints, send invalid messages,
//!   answer with an error, stay silent, be slow, drop streams, crash and restart ([`Script`], [`Server`]), and await look-ups
//!   ([`Controller::expect_lookup`]).
//! - **People** write one YAML file of services ([`Mesh`]), which is applied at once whenever it changes
//!   ([`watch_file`]).
//!
//! **Place.** It depends on the wire types only and not on the proxy, so that it cannot agree with the proxy by
//! accident.
//!
//! **Invariants.**
//! - A new stream gets the whole current state first; later changes come as differences.
//! - A stream holds *the latest state*, never a queue of changes: a slow reader gets one combined difference, and
//!   nothing overflows. Only raw messages of a test are queued, up to [`ControllerLimits::queued_messages`].
//! - A file with an error never changes the state.
//!
//! **Never.** It never keeps a stream, a connection or a task beyond the [`Server`] that accepted it.

mod authority;
mod content;
mod controller;
mod endpoint;
mod grpc;
mod identity;
mod issuance;
mod issued_name;
mod limits;
mod lookups;
mod mesh;
mod open_stream;
mod policy;
mod profile;
mod proxy;
mod script;
mod serve;
mod server_policy;
mod state;
mod stream;
mod table;
mod target;
mod tokens;

/// The crates whose types are in the signatures: futures, messages of the APIs, the proxy's state, listeners and watch channels, statuses.
pub use {futures, linkerd_api_proto, serde_json, tokio, tonic};

pub use crate::authority::{Authority, AuthorityError, IssuedIdentity, SignedCertificate};
pub use crate::content::EndpointSet;
pub use crate::controller::Controller;
pub use crate::endpoint::Endpoint;
pub use crate::identity::IdentityScript;
pub use crate::issuance::CertificateCounts;
pub use crate::limits::ControllerLimits;
pub use crate::lookups::{ExpectationError, Lookup, LookupKind};
pub use crate::mesh::{
    AppliedMesh, FileWatch, HostAddresses, Mesh, MeshError, MeshLoad, Problem, Problems, Resolve,
    SystemResolver, bracketed_ipv6, watch_file, watch_file_with,
};
pub use crate::policy::{
    Breaker, HeaderChanges, Policy, Protocol, Route, RouteFilter, RouteMatch, RouteRetry,
    RouteRule, RouteTimeouts, TlsRoute,
};
pub use crate::profile::{Profile, ProfileMatch, ProfileRoute, ResponseClass, ResponseMatch};
pub use crate::proxy::{ProxyBuilder, ProxyError, ProxyExit, ProxyProcess};
pub use crate::script::Script;
pub use crate::serve::Server;
pub use crate::server_policy::{Authorization, InboundRoute, RateLimit, ServerPolicy};
pub use crate::state::Content;
pub use crate::tokens::{KeySetError, TokenError, TokenVerifier};
