//! The sources and the generated servers, joined without a socket.

use super::*;
use futures::StreamExt;
use linkerd_api_proto::{
    destination::{
        DestinationProfile, GetDestination, NoEndpoints, Update,
        destination_server::{Destination as Destinations, DestinationServer},
        update,
    },
    outbound::{
        OutboundPolicy, TrafficSpec,
        outbound_policies_server::{OutboundPolicies, OutboundPoliciesServer},
        traffic_spec,
    },
};
use linkerd_discover::{EndpointSetChange, EndpointSource, EndpointUpdate};
use linkerd_profiles::{PolicySource, ProfileSource, Target};
use linkerd_proxy_core::{
    Destination,
    subscription::{Call, Code, Status},
};
use tonic::{Request, Response, codegen::tokio_stream::Once};

struct Controller;

type Answered<T> = Result<Response<Once<Result<T, tonic::Status>>>, tonic::Status>;

fn once<T>(message: T) -> Answered<T> {
    Ok(Response::new(tonic::codegen::tokio_stream::once(Ok(
        message,
    ))))
}

#[tonic::async_trait]
impl Destinations for Controller {
    type GetStream = Once<Result<Update, tonic::Status>>;
    type GetProfileStream = Once<Result<DestinationProfile, tonic::Status>>;

    async fn get(&self, request: Request<GetDestination>) -> Answered<Update> {
        let request = request.into_inner();
        assert_eq!(request.context_token, "token");
        match request.path.as_str() {
            "web.default.svc:80" => once(Update {
                update: Some(update::Update::NoEndpoints(NoEndpoints { exists: true })),
            }),
            path => Err(tonic::Status::invalid_argument(path)),
        }
    }

    async fn get_profile(&self, request: Request<GetDestination>) -> Answered<DestinationProfile> {
        let request = request.into_inner();
        assert_eq!(request.context_token, "token");
        assert_eq!(request.path, "web.default.svc:80");
        once(DestinationProfile {
            fully_qualified_name: "web.default.svc.cluster.local".into(),
            ..Default::default()
        })
    }
}

#[tonic::async_trait]
impl OutboundPolicies for Controller {
    type WatchStream = Once<Result<OutboundPolicy, tonic::Status>>;

    async fn get(
        &self,
        _: Request<TrafficSpec>,
    ) -> Result<Response<OutboundPolicy>, tonic::Status> {
        Err(tonic::Status::unimplemented(""))
    }

    async fn watch(&self, request: Request<TrafficSpec>) -> Answered<OutboundPolicy> {
        let request = request.into_inner();
        assert_eq!(request.source_workload, "default:web-0");
        match request.target {
            Some(traffic_spec::Target::Addr(_)) => once(OutboundPolicy::default()),
            target => Err(tonic::Status::not_found(format!("{target:?}"))),
        }
    }
}

/// The items of a call until it ends.
async fn all<T>(call: Call<T>) -> Result<Vec<T>, Status> {
    let items: Vec<_> = call.await?.collect().await;
    items.into_iter().collect()
}

#[tokio::test]
async fn endpoints_are_converted() {
    let source = GrpcEndpointSource::new(DestinationServer::new(Controller), "token");
    let destination = |text: &str| text.parse::<Destination>().unwrap();
    let updates = all(source.endpoints(&destination("web.default.svc.:80"))).await;
    let cleared: EndpointUpdate = EndpointSetChange::Clear { exists: true }.into();
    assert_eq!(updates, Ok(vec![cleared]));
    let refused = all(source.endpoints(&destination("api:80"))).await;
    let status = Status::new(Code::InvalidArgument, "api:80");
    assert_eq!(refused, Err(status));
}

#[tokio::test]
async fn policies_are_converted() {
    let source = GrpcPolicySource::new(OutboundPoliciesServer::new(Controller), "default:web-0");
    let target = |text: &str| text.parse::<Target>().unwrap();
    let policies = all(source.policies(&target("10.0.0.1:80"))).await.unwrap();
    let invalid = policies[0].invalid.as_deref();
    assert_eq!(invalid, Some("the policy's metadata is missing"));
    let refused = all(source.policies(&target("web:80"))).await.unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    assert_eq!(refused.message, r#"Some(Authority("web:80"))"#);
}

#[tokio::test]
async fn profiles_are_converted() {
    let source = GrpcProfileSource::new(DestinationServer::new(Controller), "token");
    let target: Target = "web.default.svc:80".parse().unwrap();
    let updates = all(source.profiles(&target)).await.unwrap();
    let logical = updates[0].profile.logical.as_ref();
    let logical = logical.map(Destination::as_str);
    assert_eq!(logical, Some("web.default.svc.cluster.local:80"));
}
