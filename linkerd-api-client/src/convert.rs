//! Conversion of wire messages.

mod duration;
mod endpoint;
mod method;
mod patterns;
mod policy;
mod profile;
mod update;

pub use endpoint::InvalidEndpoint;
pub use policy::{InvalidPolicy, client_policy};
pub use profile::profile_update;
pub use update::endpoint_update;
