//! Policies, by the call `OutboundPolicies.Watch`.

use crate::{
    client::{ApiClient, ApiService},
    convert,
};
use linkerd_api_proto::{
    outbound::{TrafficSpec, traffic_spec},
    stream::method,
};
use linkerd_profiles::{ClientPolicy, PolicySource, Target};
use linkerd_proxy_core::subscription::Call;

/// The policy controller as a source of policies.
pub struct GrpcPolicySource<T> {
    client: ApiClient<T>,
    workload: String,
}

impl<T: ApiService> GrpcPolicySource<T> {
    /// A source over a gRPC service. The workload is sent with every call (`LINKERD2_PROXY_POLICY_WORKLOAD`).
    pub fn new(service: T, workload: impl Into<String>) -> Self {
        Self {
            client: ApiClient::new(service),
            workload: workload.into(),
        }
    }
}

impl<T: ApiService> PolicySource for GrpcPolicySource<T> {
    fn policies(&self, target: &Target) -> Call<ClientPolicy> {
        let target = match target {
            Target::Addr(addr) => traffic_spec::Target::Addr((*addr).into()),
            Target::Name(name) => traffic_spec::Target::Authority(name.to_string()),
        };
        let request = TrafficSpec {
            source_workload: self.workload.clone(),
            target: Some(target),
        };
        self.client
            .call(method::WATCH, request, convert::client_policy)
    }
}
