//! Policies of the ports that peers connect to: authorizations, routes and rate limits.
//!
//! A [`ServerPolicy`] is an immutable value; the admission of a client is a pure function of the policy, the client's address
//! and its TLS status. [`ServerPolicies`] keeps the present policy of each port in use. [`ServiceProfiles`] has the
//! profiles of the services that requests address, for metrics.

mod authorization;
mod decision;
mod default_policy;
mod follow_port;
mod follow_profile;
mod gcra;
mod rate_limit;
mod readings;
mod routes;
mod server_policies;
mod server_policy;
mod service_profile;
mod service_profiles;
mod shared_freshness;
mod source;
mod stream_loss;
mod unmet_condition;

pub use authorization::{Authentication, Authorization, ClientIdentities, ClientNetwork};
pub use decision::{Denial, NearestAuthorization};
pub use default_policy::{DefaultAccess, DefaultServerPolicies};
pub use rate_limit::{
    ClientRateLimit, RateLimitExceeded, RateLimitOverride, RateLimitScope, RateLimitSettings,
    RateLimiter,
};
pub use routes::{InboundRoute, InboundRoutes};
pub use server_policies::{KnownPort, ServerPolicies, ServerPoliciesConfig, ServerPolicyWatch};
pub use server_policy::{InboundHttp, ServerPolicy, ServerProtocol};
pub use service_profile::ServiceProfile;
pub use service_profiles::{ServiceProfileWatch, ServiceProfiles, ServiceProfilesConfig};
pub use source::ServerPolicySource;
pub use unmet_condition::UnmetCondition;
