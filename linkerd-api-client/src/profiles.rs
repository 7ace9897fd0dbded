//! Profiles, by the call `Destination.GetProfile`.

use crate::{
    client::{ApiClient, ApiService},
    convert,
};
use linkerd_api_proto::{destination::GetDestination, stream::method};
use linkerd_profiles::{ProfileSource, ProfileUpdate, Target};
use linkerd_proxy_core::subscription::Call;

/// The destination controller as a source of profiles.
pub struct GrpcProfileSource<T> {
    client: ApiClient<T>,
    context_token: String,
}

impl<T: ApiService> GrpcProfileSource<T> {
    /// A source over a gRPC service. The token is sent with every call (`LINKERD2_PROXY_DESTINATION_CONTEXT`).
    pub fn new(service: T, context_token: impl Into<String>) -> Self {
        Self {
            client: ApiClient::new(service),
            context_token: context_token.into(),
        }
    }
}

impl<T: ApiService> ProfileSource for GrpcProfileSource<T> {
    fn profiles(&self, target: &Target) -> Call<ProfileUpdate> {
        let request = GetDestination {
            scheme: String::new(),
            path: target.to_string(),
            context_token: self.context_token.clone(),
        };
        let port = target.port();
        self.client
            .call(method::GET_PROFILE, request, move |message| {
                convert::profile_update(message, port)
            })
    }
}
