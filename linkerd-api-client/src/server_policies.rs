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
}

impl<T: ApiService> GrpcServerPolicySource<T> {
    /// A source over a gRPC service. The workload is sent with every call (`LINKERD2_PROXY_POLICY_WORKLOAD`).
    pub fn new(service: T, workload: impl Into<String>) -> Self {
        Self {
            client: ApiClient::new(service),
            workload: workload.into(),
        }
    }
}

impl<T: ApiService> ServerPolicySource for GrpcServerPolicySource<T> {
    fn server_policies(&self, port: u16) -> Call<ServerPolicy> {
        let request = PortSpec {
            workload: self.workload.clone(),
            port: port.into(),
        };
        self.client
            .call(method::WATCH_PORT, request, convert::server_policy)
    }
}
