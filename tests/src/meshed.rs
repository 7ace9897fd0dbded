//! Proxies with identities.

use crate::{Builder, Http1, Http2, Proxy};
use linkerd_control::{Authority, Controller, Endpoint, EndpointSet, Policy};
use std::{fs, net::SocketAddr, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Two proxies of a mesh, `web` and `api`, and their control plane, which issues their certificates over TLS.
pub struct Meshed {
    /// The control plane's state.
    pub controller: Controller,
    /// The authority of the mesh.
    pub authority: Arc<Authority>,
    /// The proxy of the client.
    pub web: Proxy,
    /// The proxy of the server.
    pub api: Proxy,
    control: linkerd_control::Server,
    files: TempDir,
}

/// The identity of a proxy of the mesh.
pub fn identity(name: &str) -> String {
    format!("{name}.default.serviceaccount.identity.linkerd.cluster.local")
}

impl Meshed {
    /// Starts the mesh, with options for either proxy.
    pub async fn start(
        web: impl FnOnce(Builder) -> Builder,
        api: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let authority = Authority::generate("root").unwrap();
        Self::start_in(tempfile::tempdir().unwrap(), authority, web, api).await
    }

    async fn start_in(
        files: TempDir,
        authority: Authority,
        web: impl FnOnce(Builder) -> Builder,
        api: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let authority = Arc::new(authority);
        let controller = Controller::new();
        controller.identity().authority(authority.clone());
        let control = serve(&controller, &authority).await;
        let proxy = |name| {
            with_identity(
                control.addr(),
                authority.trust_anchors(),
                name,
                files.path(),
            )
        };
        let (web, api) = tokio::join!(web(proxy("web")).start(), api(proxy("api")).start());
        Self {
            controller,
            authority,
            web,
            api,
            control,
            files,
        }
    }

    /// Starts the mesh, with the trust anchors of the proxies in a file: [`trust`](Self::trust) replaces them.
    pub async fn start_with_anchors_file(
        web: impl FnOnce(Builder) -> Builder,
        api: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let files = tempfile::tempdir().unwrap();
        let from = anchors_file(files.path());
        let (web, api) = (|builder| web(from(builder)), |builder| api(from(builder)));
        Self::start_with_anchors(files, web, api).await
    }

    /// Starts the mesh, with the trust anchors of the server's proxy alone in a file: the client's proxy goes on to trust the server
    /// when [`trust`](Self::trust) replaces them.
    pub async fn start_with_anchors_file_of_api(api: impl FnOnce(Builder) -> Builder) -> Self {
        let files = tempfile::tempdir().unwrap();
        let from = anchors_file(files.path());
        Self::start_with_anchors(files, |web| web, |builder| api(from(builder))).await
    }

    async fn start_with_anchors(
        files: TempDir,
        web: impl FnOnce(Builder) -> Builder,
        api: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let authority = Authority::generate("root").unwrap();
        write_anchors(files.path(), &[&authority]);
        Self::start_in(files, authority, web, api).await
    }

    /// Replaces the file of the trust anchors, like a mounted volume.
    pub fn trust(&self, authorities: &[&Authority]) {
        write_anchors(self.files.path(), authorities);
    }

    /// Replaces the file of the trust anchors by another text.
    pub fn write_anchors_file(&self, text: &str) {
        replace(self.files.path(), text);
    }

    /// Sets the authority that signs from now on, including the certificate of the control plane itself.
    pub fn sign_with(&self, authority: &Arc<Authority>) {
        self.controller.identity().authority(authority.clone());
        let name = identity("control");
        self.control.renew_tls(authority, &[name]).unwrap();
    }

    /// Another proxy of the mesh, not started.
    pub fn proxy(&self, name: &str) -> Builder {
        with_identity(
            self.control.addr(),
            self.authority.trust_anchors(),
            name,
            self.files.path(),
        )
    }

    /// Declares a service `api` on port 80, whose only endpoint is the server at `addr` behind the proxy `api`.
    pub fn serve_api(&self, addr: SocketAddr, endpoint: impl FnOnce(Endpoint) -> Endpoint) {
        let meshed = Endpoint::new(addr)
            .identity(identity("api"))
            .inbound_port(self.api.inbound.port());
        let endpoints = EndpointSet::new([endpoint(meshed)]);
        let policy = Policy::balance("api", 80);
        self.controller.policy("api:80").set(policy);
        let name = "api.default.svc.cluster.local:80";
        self.controller.destination(name).set(endpoints);
    }

    /// The address of the control plane in a form that proxies do not treat as loopback, so that they call it with TLS.
    pub fn control_addr(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0], self.control.addr().port()))
    }

    /// An HTTP/1 connection to the proxy of the client.
    pub async fn http1(&self) -> Http1 {
        Http1::connect(self.web.outbound).await
    }

    /// An HTTP/2 connection to the proxy of the client.
    pub async fn http2(&self) -> Http2 {
        Http2::connect(self.web.outbound).await
    }
}

/// Has a proxy read its trust anchors from the file among `files`.
fn anchors_file(files: &Path) -> impl Fn(Builder) -> Builder + use<> {
    let path = files.join("anchors.pem");
    move |builder| {
        builder
            .without("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS")
            .env("LINKERD_PROXY_IDENTITY_TRUST_ANCHORS_FILE", path.display())
    }
}

fn write_anchors(files: &Path, authorities: &[&Authority]) {
    let texts = authorities
        .iter()
        .map(|authority| authority.trust_anchors());
    replace(files, &texts.collect::<String>());
}

/// Replaces the file of the trust anchors by another one.
fn replace(files: &Path, text: &str) {
    let next = files.join("anchors.next");
    fs::write(&next, text).unwrap();
    fs::rename(next, files.join("anchors.pem")).unwrap();
}

async fn serve(controller: &Controller, authority: &Authority) -> linkerd_control::Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = identity("control");
    controller.serve_tls(listener, authority, &[name]).unwrap()
}

/// A proxy `name` that makes its own key, in its own directory. It does not treat its controllers as loopback, and uses TLS.
pub fn with_identity(
    control: SocketAddr,
    trust_anchors: &str,
    name: &str,
    files: &Path,
) -> Builder {
    let token = files.join("token");
    fs::write(&token, "secret-of-the-test").unwrap();
    // The address leads to loopback, but is not treated as such.
    let control = SocketAddr::from(([0, 0, 0, 0], control.port()));
    let named = identity("control");
    Builder::new(control)
        .env("LINKERD2_PROXY_DESTINATION_SVC_NAME", &named)
        .env("LINKERD2_PROXY_POLICY_SVC_NAME", &named)
        .env("LINKERD2_PROXY_IDENTITY_SVC_ADDR", control)
        .env("LINKERD2_PROXY_IDENTITY_SVC_NAME", &named)
        .env("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", identity(name))
        .env("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", trust_anchors)
        .env("LINKERD2_PROXY_IDENTITY_DIR", files.join(name).display())
        .env("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", token.display())
}
