//! The source of the policies of ports, in the proxy's own terms.

use super::server_policy::ServerPolicy;
use linkerd_proxy_core::subscription::Call;

/// A source of the policies of ports: a control plane, a file, a test.
pub trait ServerPolicySource: Send + Sync + 'static {
    /// Subscribes to the policy of a port. Each item replaces the previous one.
    ///
    /// An invalid policy carries the reason. In other respects like
    /// [`PolicySource::policies`](crate::PolicySource::policies).
    fn server_policies(&self, port: u16) -> Call<ServerPolicy>;
}
