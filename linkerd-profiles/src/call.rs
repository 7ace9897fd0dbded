//! Making the calls `OutboundPolicies.Watch` and `Destination.GetProfile`.

use crate::{convert::status, target::Target};
use futures::{FutureExt, StreamExt, TryStreamExt};
use linkerd_api_proto::{
    destination::{DestinationProfile, GetDestination},
    outbound::{OutboundPolicy, TrafficSpec, traffic_spec},
    stream::{self, method},
};
use linkerd_proxy_core::subscription::Call;
use parking_lot::Mutex;
use tonic::client::GrpcService;

/// What opens the streams of a target. The control plane's clients do; tests script it.
pub trait Lookups: Send + Sync + 'static {
    /// Asks for the policy of a target.
    fn policy(&self, target: &Target) -> Call<OutboundPolicy>;

    /// Asks for the profile of a target.
    fn profile(&self, target: &Target) -> Call<DestinationProfile>;
}

/// The control plane, over gRPC. The services are cloned for each call.
pub(crate) struct OverGrpc<D, P> {
    pub(crate) destinations: Mutex<D>,
    pub(crate) policies: Mutex<P>,
    pub(crate) context_token: String,
    pub(crate) workload: String,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<D, P> Lookups for OverGrpc<D, P>
where
    D: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    D::Future: Send,
    D::Error: Into<BoxError>,
    D::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <D::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
    P: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    P::Future: Send,
    P::Error: Into<BoxError>,
    P::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <P::ResponseBody as http_body::Body>::Error: Into<BoxError> + Send,
{
    fn policy(&self, target: &Target) -> Call<OutboundPolicy> {
        let service = self.policies.lock().clone();
        let target = match target {
            Target::Addr(addr) => traffic_spec::Target::Addr((*addr).into()),
            Target::Name { .. } => traffic_spec::Target::Authority(target.to_string()),
        };
        let request = TrafficSpec {
            source_workload: self.workload.clone(),
            target: Some(target),
        };
        async move {
            let opened = stream::open(service, method::WATCH, request).await;
            let policies = opened.map_err(|error| status(&error))?;
            Ok(policies.map_err(|error| status(&error)).boxed())
        }
        .boxed()
    }

    fn profile(&self, target: &Target) -> Call<DestinationProfile> {
        let service = self.destinations.lock().clone();
        let request = GetDestination {
            scheme: String::new(),
            path: target.to_string(),
            context_token: self.context_token.clone(),
        };
        async move {
            let opened = stream::open(service, method::GET_PROFILE, request).await;
            let profiles = opened.map_err(|error| status(&error))?;
            Ok(profiles.map_err(|error| status(&error)).boxed())
        }
        .boxed()
    }
}
