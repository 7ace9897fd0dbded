//! Routes of service profiles.

#![allow(clippy::unwrap_used, missing_docs)]

mod classes;
mod matches;
mod metrics;
mod opaque;
mod targets;
mod timeouts;
mod updates;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_control::{Policy, Profile, ProfileMatch, ProfileRoute, Script};
use linkerd_tests::{Body, Fail, Mesh, MeshBuilder, Reply, Server, empty, request, soon};

/// Name of the service with a profile, and its label `dst` in metrics.
const NAME: &str = "web.default.svc.cluster.local";
const DST: &str = "web.default.svc.cluster.local:80";

/// A mesh with a service that has a policy and a profile, and the server behind it.
struct Profiled {
    mesh: Mesh,
    server: Server,
}

impl Profiled {
    async fn start(profile: Profile) -> Self {
        Self::build(Mesh::builder(), profile).await
    }

    /// Starts the service with a profile of these routes.
    async fn with(routes: impl IntoIterator<Item = ProfileRoute>) -> Self {
        Self::start(profile(routes)).await
    }

    async fn build(builder: MeshBuilder, profile: Profile) -> Self {
        let server = Server::start(by_header).await;
        let mesh = builder.start().await;
        mesh.service("web", [server.addr()]);
        mesh.controller.policy(DST).set(Policy::balance("web", 80));
        let profiled = Self { mesh, server };
        profiled.profile().set(profile);
        profiled
    }

    fn profile(&self) -> Script<DestinationProfile> {
        self.mesh.controller.profile(DST)
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&'static str, &str)]) -> Reply {
        let request = wanted(method, path, headers);
        soon(self.mesh.http1().await.send(request)).await.unwrap()
    }

    async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[]).await
    }

    /// Number of requests to the route with this label `route`.
    async fn requests(&self, route: &str) -> f64 {
        let labels = [("dst", DST), ("rt_route", route)];
        let metrics = self.mesh.proxy.metrics().await;
        metrics.sum("route_request_total", &labels)
    }
}

fn profile(routes: impl IntoIterator<Item = ProfileRoute>) -> Profile {
    routes.into_iter().fold(Profile::new(NAME), Profile::route)
}

/// A route with the label `route`.
fn named(name: &str, condition: ProfileMatch) -> ProfileRoute {
    ProfileRoute::new(condition).label("route", name)
}

/// A request to the service.
fn wanted(method: &str, path: &str, headers: &[(&'static str, &str)]) -> Request<Body> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = request(method, &format!("http://{NAME}{path}"), empty());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

/// Answers with the status of the header `x-status`, and the gRPC code of `x-code`.
async fn by_header(request: Request<Incoming>) -> Result<Response<Body>, Fail> {
    let header = |name| {
        request
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    let mut response = Response::new(empty());
    if let Some(status) = header("x-status") {
        *response.status_mut() = status.parse().unwrap();
    }
    if let Some(code) = header("x-code") {
        let code = code.parse().unwrap();
        response.headers_mut().insert("grpc-status", code);
    }
    Ok(response)
}
