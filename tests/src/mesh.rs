//! A proxy with its surroundings.

use crate::{Builder, Grpc, Http1, Http2, Proxy, Reply, Server, Wire, soon};
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_control::{Controller, EndpointSet, Policy, Script};
use std::net::SocketAddr;

/// A control plane and its proxy.
pub struct Mesh {
    /// The control plane's state.
    pub controller: Controller,
    /// The control plane's server; `None` after [`Mesh::kill_control`].
    control: Option<linkerd_control::Server>,
    control_addr: SocketAddr,
    /// The proxy.
    pub proxy: Proxy,
}

/// Options of a mesh.
#[derive(Default)]
pub struct MeshBuilder {
    env: Vec<(String, String)>,
}

impl MeshBuilder {
    /// Sets a variable of the proxy.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts the control plane and the proxy.
    pub async fn start(self) -> Mesh {
        let controller = Controller::new();
        let control = controller.spawn().await.unwrap();
        let builder = Builder::new(control.addr());
        let builder = self
            .env
            .iter()
            .fold(builder, |b, (name, value)| b.env(name, value));
        Mesh {
            proxy: builder.start().await,
            control_addr: control.addr(),
            control: Some(control),
            controller,
        }
    }
}

impl Mesh {
    /// A builder of a mesh.
    pub fn builder() -> MeshBuilder {
        MeshBuilder::default()
    }

    /// A mesh with default options.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A mesh with a service `web` of one server.
    pub async fn with(server: &Server) -> Self {
        let mesh = Self::start().await;
        mesh.service("web", [server.addr()]);
        mesh
    }

    /// Declares a service on port 80, and returns its endpoints.
    pub fn service(
        &self,
        name: &str,
        endpoints: impl IntoIterator<Item = SocketAddr>,
    ) -> Script<EndpointSet> {
        self.controller
            .policy(format!("{name}:80"))
            .set(Policy::balance(name, 80));
        let script = self.endpoints(name);
        script.set(EndpointSet::new(endpoints));
        script
    }

    /// The endpoints of a service.
    pub fn endpoints(&self, name: &str) -> Script<EndpointSet> {
        self.controller
            .destination(format!("{name}.default.svc.cluster.local:80"))
    }

    /// The policy of a service.
    pub fn policy(&self, name: &str) -> Script<linkerd_api_proto::outbound::OutboundPolicy> {
        self.controller.policy(format!("{name}:80"))
    }

    /// The profile of a service.
    pub fn profile(&self, name: &str) -> Script<DestinationProfile> {
        self.controller.profile(format!("{name}:80"))
    }

    /// An HTTP/1 connection to the proxy.
    pub async fn http1(&self) -> Http1 {
        Http1::connect(self.proxy.outbound).await
    }

    /// An HTTP/2 connection to the proxy.
    pub async fn http2(&self) -> Http2 {
        Http2::connect(self.proxy.outbound).await
    }

    /// A gRPC client of a service.
    pub async fn grpc(&self, name: &str) -> Grpc {
        Grpc::new(self.http2().await, name)
    }

    /// A connection to the proxy for arbitrary bytes.
    pub async fn wire(&self) -> Wire {
        Wire::connect(self.proxy.outbound).await
    }

    /// Gets a URI over a new connection.
    #[track_caller]
    pub fn get(&self, uri: &str) -> impl Future<Output = Reply> + use<> {
        let (proxy, uri) = (self.proxy.outbound, uri.to_owned());
        let get = soon(async move { Http1::connect(proxy).await.get(&uri).await });
        async move { get.await.unwrap() }
    }

    /// Kills the control plane, like a crash.
    pub async fn kill_control(&mut self) {
        self.control.take().expect("it runs").kill().await;
    }

    /// Restarts the control plane at its address.
    pub async fn restart_control(&mut self) {
        self.control = Some(self.controller.spawn_at(self.control_addr).await.unwrap());
    }
}
