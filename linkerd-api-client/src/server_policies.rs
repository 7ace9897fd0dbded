//! Policies of ports, by the call `InboundServerPolicies.WatchPort`.

use crate::{
    client::{ApiClient, ApiService},
    convert,
};
use linkerd_api_proto::{inbound::PortSpec, stream::method};
use linkerd_profiles::{ServerPolicy, ServerPolicySource};
use linkerd_proxy_core::subscription::Call;

/// The policy controller as a source of the policies of ports.
pub struct GrpcServerPolicySource<T> {
    client: ApiClient<T>,
    workload: String,
    admits_loopback: bool,
}

impl<T: ApiService> GrpcServerPolicySource<T> {
    /// A source over a gRPC service. The workload is sent with every call (`LINKERD2_PROXY_POLICY_WORKLOAD`).
    pub fn new(service: T, workload: impl Into<String>) -> Self {
        Self {
            client: ApiClient::new(service),
            workload: workload.into(),
            admits_loopback: true,
        }
    }

    /// Sets whether every server admits clients on loopback (`LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK`); the default is true.
    #[must_use]
    pub fn admit_loopback(mut self, admits: bool) -> Self {
        self.admits_loopback = admits;
        self
    }
}

impl<T: ApiService> ServerPolicySource for GrpcServerPolicySource<T> {
    fn server_policies(&self, port: u16) -> Call<ServerPolicy> {
        let request = PortSpec {
            workload: self.workload.clone(),
            port: port.into(),
        };
        let convert = match self.admits_loopback {
            true => convert::server_policy,
            false => convert::server_policy_alone,
        };
        self.client.call(method::WATCH_PORT, request, convert)
    }
}
