//! The control plane of the comparison: serves endpoints to sidecars.

use crate::{
    error::{Context, Error, Result},
    identities::{API, Identities, WEB},
    net::{self, PEER},
    workload::{Protocol, Workload},
};
use linkerd_control::{
    Authorization, Breaker, Controller, HeaderChanges, Mesh, Policy, Route, RouteFilter,
    RouteMatch, RouteRetry, RouteRule, RouteTimeouts, ServerPolicy,
};
use std::{fmt::Write, net::SocketAddr, path::Path, sync::mpsc, thread, time::Duration};

/// A controller on its own thread, for as long as this process runs.
pub struct Control {
    controller: Controller,
    /// The address.
    pub addr: SocketAddr,
    /// The identities that the controller issues.
    pub identities: Identities,
}

impl Control {
    /// Starts the controller. `scratch` is a directory for the files of identities.
    pub fn start(scratch: &Path) -> Result<Self> {
        let identities = Identities::new(scratch)?;
        let controller = Controller::new();
        controller
            .identity()
            .authority(identities.authority.clone());
        let (tell, told) = mpsc::channel();
        let served = controller.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the control plane")?;
        thread::spawn(move || {
            step_back();
            runtime.block_on(async move {
                let server = served.spawn().await;
                let addr = server.as_ref().map(linkerd_control::Server::addr);
                let _ = tell.send(addr.map_err(|error| error.to_string()));
                std::future::pending::<()>().await;
            });
        });
        let addr = told
            .recv()
            .map_err(|error| error.to_string())
            .and_then(|addr| addr)
            .map_err(|error| Error::Other(format!("the control plane cannot listen: {error}")))?;
        Ok(Self {
            controller,
            addr,
            identities,
        })
    }

    /// Applies the services of a workload.
    pub fn describe(&self, workload: &Workload) -> Result<()> {
        let file = mesh_file(workload, |service| workload.endpoints(service));
        self.apply(&parse(&file)?);
        if workload.has_policy {
            let target = workload.target(false).to_string();
            self.controller.policy(target).set(policy());
        }
        if workload.is_meshed {
            let server = self.controller.server(workload.backend_port());
            server.set(server_policy(workload.protocol()));
        }
        Ok(())
    }

    /// Applies a mesh.
    pub fn apply(&self, mesh: &Mesh) {
        let apply = || {
            step_back();
            self.controller.apply(mesh);
        };
        // On a separate thread, to lower only its priority. A panic of the controller is passed on.
        thread::scope(|scope| drop(scope.spawn(apply)));
    }
}

/// The policy of a service with all features, though the requests need none. The first two routes do not match them.
fn policy() -> Policy {
    let seconds = Duration::from_secs;
    let named = HeaderChanges::new().set("x-route", "all");
    let all = RouteRule::new()
        .when(RouteMatch::prefix("/"))
        .filter(RouteFilter::request_headers(named))
        .timeouts(RouteTimeouts::new().request(seconds(10)).idle(seconds(10)))
        .retry(RouteRetry::new(2).status(500..=599));
    let admin = RouteMatch::prefix("/admin").header("x-admin", "yes");
    let others = [admin, RouteMatch::exact("/health")].map(|for_others| {
        let name = "others";
        Route::new(name).rule(RouteRule::new().when(for_others))
    });
    let policy = others
        .into_iter()
        .fold(Policy::balance("web-0", 80), Policy::route);
    policy
        .route(Route::new("all").rule(all))
        .failure_accrual(Breaker::consecutive(7))
}

/// The policy of the backend's port, which admits only the clients' proxy.
fn server_policy(protocol: Protocol) -> ServerPolicy {
    let web = Authorization::all("web").identity(WEB);
    let policy = ServerPolicy::new("backend").authorize(web);
    match protocol {
        Protocol::Http1 => policy.http1(),
        Protocol::Http2 => policy.http2(),
        Protocol::Opaque => policy.opaque(),
    }
}

/// Gives the calling thread the lowest priority: a control plane, which elsewhere runs on another machine, must not delay
/// load and backend, with which it shares a core here. It took half of the core while the backend closed a thousand
/// connections of removed endpoints, which showed as 20 ms of latency of a proxy that had long forwarded the requests.
fn step_back() {
    // Without the permission, all proxies with a control plane are affected alike.
    let _ = rustix::process::setpriority_process(None, LOWEST);
}

/// A mesh with these endpoints for each service of a workload. Slow: reading the file of 10,000 endpoints takes a core for a
/// tenth of a second.
pub fn mesh_of(workload: &Workload, endpoints: &[SocketAddr]) -> Result<Mesh> {
    parse(&mesh_file(workload, |_| endpoints.to_vec()))
}

fn parse(file: &str) -> Result<Mesh> {
    Mesh::parse("the mesh", file).map_err(|error| Error::Other(error.to_string()))
}

fn mesh_file(workload: &Workload, endpoints: impl Fn(usize) -> Vec<SocketAddr>) -> String {
    let protocol = match workload.protocol() {
        Protocol::Opaque => "opaque",
        Protocol::Http1 | Protocol::Http2 => "detect",
    };
    let mut file = "services:\n".to_owned();
    for service in 0..workload.services {
        let (addr, endpoints) = (net::service(service), endpoints(service));
        let endpoint = |addr: &SocketAddr| match (workload.is_meshed, workload.protocol()) {
            (false, _) | (true, Protocol::Http2) => format!("'{addr}'"),
            (true, Protocol::Http1) => format!("{{address: '{addr}', protocol: h2}}"),
            (true, Protocol::Opaque) => format!("{{address: '{addr}', protocol: opaque}}"),
        };
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        let proxy = match workload.is_meshed {
            true => format!("identity: {API}, proxyPort: {}, ", PEER.port()),
            false => String::new(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            file,
            "  - {{name: web-{service}, port: 80, addresses: [{addr}], protocol: {protocol}, {proxy}endpoints: [{}]}}",
            endpoints.join(", ")
        );
    }
    file
}

const LOWEST: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ALL;

    #[test]
    fn each_workload_has_a_mesh_file() {
        for workload in ALL {
            let file = mesh_file(workload, |service| workload.endpoints(service));
            let mesh = Mesh::parse("test", &file).unwrap();
            assert_eq!(mesh.services(), workload.services);
            let endpoints = workload.endpoints(0).len();
            assert_eq!(mesh.endpoints(), workload.services * endpoints);
        }
    }
}
