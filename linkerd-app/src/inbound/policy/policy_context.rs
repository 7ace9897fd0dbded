//! The parts of the proxy by which policies of ports decide and count.

use crate::{inbound::client_identities::ClientIdentities, metrics::Families};
use linkerd_profiles::ServerPolicies;

/// The parts of the proxy by which policies of ports decide and count; one for each thread that has ports.
#[derive(Debug)]
pub struct PolicyContext {
    /// Metric families.
    pub families: Families,
    /// Policies of ports.
    pub server_policies: ServerPolicies,
    /// Whether requests are counted by their authority, too.
    pub authority_labels: bool,
    /// Identities of clients that labels name.
    pub client_identities: ClientIdentities,
}
