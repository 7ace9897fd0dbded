//! Conversion of wire messages.

mod duration;
mod endpoint;
mod method;
mod patterns;
mod policy;
mod profile;
mod server_policy;
mod update;

pub use endpoint::InvalidEndpoint;
pub use policy::{InvalidPolicy, client_policy};
pub use profile::profile_update;
pub use server_policy::{InvalidServer, server_policy, server_policy_alone};
pub use update::endpoint_update;
