use crate::content::EndpointSet;
use crate::open_stream::OpenStream;
use crate::state::{Content, ControllerState};
use crate::target::canonical;
use futures::stream::{self, BoxStream, StreamExt};
use linkerd_api_proto::destination::destination_server::Destination;
use linkerd_api_proto::destination::{DestinationProfile, GetDestination, Update};
use linkerd_api_proto::inbound::inbound_server_policies_server::InboundServerPolicies;
use linkerd_api_proto::inbound::{PortSpec, Server};
use linkerd_api_proto::outbound::outbound_policies_server::OutboundPolicies;
use linkerd_api_proto::outbound::{OutboundPolicy, TrafficSpec, traffic_spec::Target};
use std::net::SocketAddr;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// The gRPC methods, which translate requests into look-ups.
#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<ControllerState>,
}

type Messages<M> = BoxStream<'static, Result<M, Status>>;

impl Api {
    pub(crate) fn new(state: Arc<ControllerState>) -> Self {
        Self { state }
    }

    async fn stream<C: Content>(
        &self,
        target: String,
        context: String,
    ) -> Result<Response<Messages<C::Message>>, Status> {
        let subscription = OpenStream::<C>::open(self.state.clone(), target, context).await?;
        let messages = stream::unfold(subscription, |mut subscription| async move {
            let message = subscription.next().await?;
            Some((message, subscription))
        });
        Ok(Response::new(messages.boxed()))
    }
}

#[tonic::async_trait]
impl Destination for Api {
    type GetStream = Messages<Update>;
    type GetProfileStream = Messages<DestinationProfile>;

    async fn get(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetStream>, Status> {
        let get = request.into_inner();
        self.stream::<EndpointSet>(get.path, get.context_token)
            .await
    }

    async fn get_profile(
        &self,
        request: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        let get = request.into_inner();
        self.stream::<DestinationProfile>(get.path, get.context_token)
            .await
    }
}

#[tonic::async_trait]
impl OutboundPolicies for Api {
    type WatchStream = Messages<OutboundPolicy>;

    async fn get(&self, request: Request<TrafficSpec>) -> Result<Response<OutboundPolicy>, Status> {
        let mut policies = self.watch(request).await?.into_inner();
        match policies.next().await {
            Some(policy) => Ok(Response::new(policy?)),
            None => Err(Status::unavailable("the policy's stream was dropped")),
        }
    }

    async fn watch(
        &self,
        request: Request<TrafficSpec>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let spec = request.into_inner();
        let target = match spec.target {
            Some(Target::Authority(authority)) => authority,
            Some(Target::Addr(addr)) => {
                if addr.port == 0 || addr.port > u16::MAX.into() {
                    return Err(Status::invalid_argument("the target's port is not valid"));
                }
                let addr = SocketAddr::try_from(addr)
                    .map_err(|_| Status::invalid_argument("the target has no IP address"))?;
                canonical(&addr.to_string())
            }
            None => return Err(Status::invalid_argument("a target is required")),
        };
        self.stream::<OutboundPolicy>(target, spec.source_workload)
            .await
    }
}

#[tonic::async_trait]
impl InboundServerPolicies for Api {
    type WatchPortStream = Messages<Server>;

    async fn get_port(&self, request: Request<PortSpec>) -> Result<Response<Server>, Status> {
        let mut servers = self.watch_port(request).await?.into_inner();
        match servers.next().await {
            Some(server) => Ok(Response::new(server?)),
            None => Err(Status::unavailable("the port's stream was dropped")),
        }
    }

    async fn watch_port(
        &self,
        request: Request<PortSpec>,
    ) -> Result<Response<Self::WatchPortStream>, Status> {
        let spec = request.into_inner();
        match u16::try_from(spec.port) {
            Ok(port @ 1..) => {
                self.stream::<Server>(format!(":{port}"), spec.workload)
                    .await
            }
            _ => Err(Status::invalid_argument("the port is not valid")),
        }
    }
}
