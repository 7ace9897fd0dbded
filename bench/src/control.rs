//! The control plane of the comparison: it tells sidecars of the service's endpoints.

use crate::{
    error::{Context, Error, Result},
    net::SERVICE,
    workload::Protocol,
};
use linkerd_control::{Controller, Mesh};
use std::{fmt::Write, net::SocketAddr, sync::mpsc, thread};

/// A controller on a thread of its own. It runs as long as this process.
pub struct Control {
    controller: Controller,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Control {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let controller = Controller::new();
        let (tell, told) = mpsc::channel();
        let served = controller.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the control plane")?;
        thread::spawn(move || {
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
        Ok(Self { controller, addr })
    }

    /// Makes these the endpoints of the service.
    pub fn describe(&self, protocol: Protocol, endpoints: &[SocketAddr]) -> Result<()> {
        let mesh = Mesh::parse("the mesh", &mesh_file(protocol, endpoints))
            .map_err(|error| Error::Other(error.to_string()))?;
        self.controller.apply(&mesh);
        Ok(())
    }
}

fn mesh_file(protocol: Protocol, endpoints: &[SocketAddr]) -> String {
    let protocol = match protocol {
        Protocol::Opaque => "opaque",
        Protocol::Http1 | Protocol::Http2 => "detect",
    };
    let mut file = format!(
        "services:\n  - name: web\n    port: 80\n    addresses: [{SERVICE}]\n    \
         protocol: {protocol}\n    endpoints:\n"
    );
    for endpoint in endpoints {
        let _ = writeln!(file, "      - {endpoint}");
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mesh_file_is_one() {
        let endpoints = [SocketAddr::from(([10, 9, 0, 11], 8080))];
        for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Opaque] {
            let mesh = Mesh::parse("test", &mesh_file(protocol, &endpoints)).unwrap();
            assert_eq!((mesh.services(), mesh.endpoints()), (1, 1));
        }
    }
}
