//! The encryption of connections: identities of the mesh, and the status of a connection.

mod identity;
mod status;

pub use identity::{Identity, InvalidIdentity};
pub use status::{NoTlsReason, TlsStatus};
