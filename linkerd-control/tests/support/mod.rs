//! Support for the tests: a proxy's side of the APIs, with a deadline for everything.

// Each test crate uses a part of this module.
#![allow(dead_code, missing_docs, unreachable_pub)]

use linkerd_api_proto::destination::destination_client::DestinationClient;
use linkerd_api_proto::destination::{
    DestinationProfile, GetDestination, Update, update::Update as LookupKind,
};
use linkerd_api_proto::net::TcpAddress;
use linkerd_api_proto::outbound::outbound_policies_client::OutboundPoliciesClient;
use linkerd_api_proto::outbound::{OutboundPolicy, TrafficSpec, traffic_spec::Target};
use linkerd_control::{Content, Script};
use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// Enough for a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

pub const WEB: &str = "web.ns.svc.cluster.local:80";

pub fn addr(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

pub async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

pub struct Proxy {
    destinations: DestinationClient<Channel>,
    policies: OutboundPoliciesClient<Channel>,
}

impl Proxy {
    pub async fn connect(addr: SocketAddr) -> Self {
        let url = format!("http://{addr}");
        let destinations = soon(DestinationClient::connect(url.clone()))
            .await
            .expect("connect");
        let policies = soon(OutboundPoliciesClient::connect(url))
            .await
            .expect("connect");
        Self {
            destinations: destinations.max_decoding_message_size(64 << 20),
            policies,
        }
    }

    pub async fn get(&self, path: &str) -> Result<Streaming<Update>, Status> {
        soon(self.destinations.clone().get(lookup(path)))
            .await
            .map(|r| r.into_inner())
    }

    pub async fn profile(&self, path: &str) -> Result<Streaming<DestinationProfile>, Status> {
        let profile = soon(self.destinations.clone().get_profile(lookup(path))).await;
        profile.map(|r| r.into_inner())
    }

    pub async fn watch(
        &self,
        target: impl Into<Asked>,
    ) -> Result<Streaming<OutboundPolicy>, Status> {
        let policy = soon(self.policies.clone().watch(target.into().0)).await;
        policy.map(|r| r.into_inner())
    }

    pub async fn policy(&self, target: impl Into<Asked>) -> Result<OutboundPolicy, Status> {
        let policy = soon(self.policies.clone().get(target.into().0)).await;
        policy.map(|r| r.into_inner())
    }
}

pub struct Asked(pub TrafficSpec);

impl From<SocketAddr> for Asked {
    fn from(addr: SocketAddr) -> Self {
        Self(spec(Target::Addr(addr.into())))
    }
}

impl From<&str> for Asked {
    fn from(authority: &str) -> Self {
        Self(spec(Target::Authority(authority.to_owned())))
    }
}

impl From<TcpAddress> for Asked {
    fn from(addr: TcpAddress) -> Self {
        Self(spec(Target::Addr(addr)))
    }
}

fn spec(target: Target) -> TrafficSpec {
    TrafficSpec {
        source_workload: "workload".to_owned(),
        target: Some(target),
    }
}

fn lookup(path: &str) -> GetDestination {
    GetDestination {
        scheme: String::new(),
        path: path.to_owned(),
        context_token: "context".to_owned(),
    }
}

/// The next message of a stream.
pub async fn next<M>(stream: &mut Streaming<M>) -> M {
    let message = soon(stream.message()).await.expect("no status");
    message.expect("not the end")
}

/// Asserts that no message was sent so far: a message that is sent now is the next one.
pub async fn nothing<C>(script: &Script<C>, stream: &mut Streaming<C::Message>)
where
    C: Content,
    C::Message: Default + Debug + PartialEq,
{
    script.send(C::Message::default());
    assert_eq!(next(stream).await, C::Message::default());
}

/// The next update: `+port` or `-port` for each endpoint, `none` or `gone` for an empty set.
pub async fn told(stream: &mut Streaming<Update>) -> Vec<String> {
    let ports = |sign: &str, addrs: Vec<Option<TcpAddress>>| {
        let port = |a: Option<TcpAddress>| a.map_or("?".to_owned(), |a| a.port.to_string());
        addrs
            .into_iter()
            .map(|a| format!("{sign}{}", port(a)))
            .collect()
    };
    match next(stream).await.update {
        Some(LookupKind::Add(set)) => ports("+", set.addrs.into_iter().map(|a| a.addr).collect()),
        Some(LookupKind::Remove(set)) => ports("-", set.addrs.into_iter().map(Some).collect()),
        Some(LookupKind::NoEndpoints(none)) if none.exists => vec!["none".to_owned()],
        Some(LookupKind::NoEndpoints(_)) => vec!["gone".to_owned()],
        None => vec!["nothing".to_owned()],
    }
}
