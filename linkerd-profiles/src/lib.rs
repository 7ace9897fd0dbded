//! Policies and profiles: the policy and the profile of each target, as the control plane publishes them.
//!
//! **Sits** between a [`PolicySource`] and a [`ProfileSource`], and the stages that detect, route and choose a backend.
//! One task for each target, on the control thread, follows both streams, joins them and publishes immutable snapshots;
//! workers watch them.
//!
//! **Invariants**
//! * The join is one pure function of both answers: their contradictions are decided there.
//! * An invalid policy is a value that refuses traffic with its reason. No update can panic.
//! * The last good answer outlives its stream, and is not evicted while the control plane is away.
//! * Metadata is compared as a whole, so resources of the same name in two namespaces are two.
//!
//! **Never** makes a connection, resolves endpoints (that is `linkerd-discover`), or holds a lock over a wait.

mod backend;
mod discovered;
mod follow;
mod inbound;
mod join;
mod meta;
mod policies;
mod policy;
mod profile;
mod route;
mod source;
mod state;
mod synthesize;
mod target;
mod tls_route;

pub use backend::{Backend, Dispatcher, Distribution, PeakEwma, TcpFilter};
pub use discovered::{
    Discovered, HttpRouting, InvalidRouting, ProtocolKind, RouteSource, RouteSpec, TlsRouting,
};
pub use inbound::{
    Authentication, Authorization, ClientIdentities, ClientNetwork, ClientRateLimit, DefaultAccess,
    DefaultServerPolicies, Denial, InboundHttp, InboundRoute, InboundRoutes, KnownPort,
    NearestAuthorization, RateLimitExceeded, RateLimitOverride, RateLimitScope, RateLimitSettings,
    RateLimiter, ServerPolicies, ServerPoliciesConfig, ServerPolicy, ServerPolicySource,
    ServerPolicyWatch, ServerProtocol, ServiceProfile, ServiceProfileWatch, ServiceProfiles,
    ServiceProfilesConfig, UnmetCondition,
};
pub use linkerd_proxy_core::endpoint::{Endpoint, FailureAccrual, LoadPenalty, SuccessRate};
pub use meta::{Meta, Resource};
pub use policies::{
    DiscoveryWatch, Error, KnownTarget, NameMatcher, NetworkMatcher, Policies, PoliciesConfig,
};
pub use policy::{ClientPolicy, OpaqueRoute, Protocol};
pub use profile::{
    Profile, ProfileMatch, ProfileRoute, ProfileTarget, RetryBudget, RetryBudgetSettings,
};
pub use route::{
    ConditionMiss, FailureInjector, FoundRule, GrpcMatch, HeaderMatch, HeaderModifier, HostMatch,
    HttpBackend, HttpFilter, HttpMatch, InjectedFailure, InvalidPattern, PathMatch, PathModifier,
    Pattern, QueryMatch, Ratio, Redirect, RequestMatch, RetryConditions, RetryPolicy, RouteRule,
    RouteTable, RuleExplanation, RuleMiss, TableExplanation, Timeouts, ValueMatch, request_host,
};
pub use source::{PolicySource, ProfileSource, ProfileUpdate};
pub use state::{DiscoveryError, DiscoveryState};
pub use target::{InvalidTarget, Target};
pub use tls_route::{SniMatch, TlsRoute, TlsTable};
