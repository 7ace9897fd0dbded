//! Endpoints, by the call `Destination.Get`.

use crate::{
    client::{ApiClient, ApiService},
    convert,
};
use linkerd_api_proto::{destination::GetDestination, stream::method};
use linkerd_discover::{EndpointSource, EndpointUpdate};
use linkerd_proxy_core::{Destination, subscription::Call};

/// The destination controller as a source of endpoints.
pub struct GrpcEndpointSource<T> {
    client: ApiClient<T>,
    context_token: String,
}

impl<T: ApiService> GrpcEndpointSource<T> {
    /// A source over a gRPC service. The token is sent with every call (`LINKERD2_PROXY_DESTINATION_CONTEXT`).
    pub fn new(service: T, context_token: impl Into<String>) -> Self {
        Self {
            client: ApiClient::new(service),
            context_token: context_token.into(),
        }
    }
}

impl<T: ApiService> EndpointSource for GrpcEndpointSource<T> {
    fn endpoints(&self, destination: &Destination) -> Call<EndpointUpdate> {
        let request = GetDestination {
            scheme: String::new(),
            path: destination.to_string(),
            context_token: self.context_token.clone(),
        };
        self.client
            .call(method::GET, request, convert::endpoint_update)
    }
}
