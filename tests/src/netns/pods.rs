//! Two pods with proxies and a link between them.

use super::{Directory, INSIDE, PROXY_UID, except_own_user, run};
use crate::{Proxy, identity, with_identity};
use linkerd_control::{Authority, Controller, Endpoint, EndpointSet, Policy, Protocol, Server};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd,
    pin::Pin,
    task::{Context, Poll},
};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// A pod of clients at [`CLIENTS`] in the test's own namespace, with the control plane beside it, and a pod of servers
/// at [`SERVERS`] in another one. Both have proxies with identities, and redirection.
pub struct Pods {
    /// The control plane's state.
    pub controller: Controller,
    /// The proxy `web` of the clients.
    pub web: Proxy,
    /// The proxy `api` of the servers.
    pub api: Proxy,
    /// The namespace of the servers.
    pub servers: OtherNamespace,
    _control: Server,
    _files: TempDir,
    _directory: Directory,
}

/// The address of the clients' pod on the link.
pub const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
/// The address of the servers' pod on the link.
pub const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);

impl Pods {
    /// Makes the other namespace and the link, and starts the proxies and the control plane. To be used inside of a
    /// namespace.
    pub async fn start() -> Self {
        let servers = OtherNamespace::new();
        let authority = Authority::generate("root").unwrap();
        let controller = Controller::new();
        let listener = TcpListener::bind((CLIENTS, 0)).await.unwrap();
        let name = identity("control");
        let control = controller.serve_tls(listener, &authority, &name).unwrap();
        let anchors = authority.trust_anchors().to_owned();
        controller.identity().authority(authority);
        let files = tempfile::tempdir().unwrap();
        let directory = Directory::new();
        let program = directory.program();
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(files.path(), open_to_all).unwrap();
        let proxy = async |name: &str, pod: Ipv4Addr| {
            let mut builder = with_identity(control.addr(), &anchors, name, files.path());
            for service in ["DESTINATION", "POLICY", "IDENTITY"] {
                let variable = format!("LINKERD2_PROXY_{service}_SVC_ADDR");
                builder = builder.env(&variable, control.addr());
            }
            let builder = builder
                .without("LINKERD_PROXY_OUTBOUND_EXPLICIT")
                .without("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK")
                .env("LINKERD2_PROXY_INBOUND_LISTEN_ADDR", "0.0.0.0:0")
                .env("LINKERD2_PROXY_INBOUND_IPS", pod)
                .program(program.clone())
                .uid(PROXY_UID);
            let proxy = builder.start().await;
            redirect(&proxy, control.addr().port());
            proxy
        };
        let web = proxy("web", CLIENTS).await;
        let api = servers.enter(proxy("api", SERVERS)).await;
        Self {
            controller,
            web,
            api,
            servers,
            _control: control,
            _files: files,
            _directory: directory,
        }
    }

    /// Declares a service at an address, whose only endpoint is a server behind the proxy `api`. The connections of an
    /// opaque one are direct, with a transport header; others are redirected there.
    pub fn serve(&self, service: SocketAddr, server: SocketAddr, protocol: Protocol) {
        let name = format!("api-{}", server.port());
        let policy = Policy::balance(&name, 80).protocol(protocol);
        self.controller.policy(service.to_string()).set(policy);
        let endpoint = Endpoint::new(server).identity(identity("api"));
        let endpoint = match protocol {
            Protocol::Opaque => endpoint.opaque().inbound_port(self.api.inbound.port()),
            _ => endpoint,
        };
        let path = format!("{name}.default.svc.cluster.local:80");
        let destination = self.controller.destination(path);
        destination.set(EndpointSet::new([endpoint]));
    }
}

/// The rules of an init container, but for the ports of the control plane.
fn redirect(proxy: &Proxy, control: u16) {
    except_own_user();
    let (inbound, outbound) = (proxy.inbound.port(), proxy.outbound.port());
    for rule in [
        format!("OUTPUT -p tcp ! -o lo -j REDIRECT --to-ports {outbound}"),
        format!("PREROUTING -p tcp --dport {control} -j RETURN"),
        format!("PREROUTING -p tcp -j REDIRECT --to-ports {inbound}"),
    ] {
        run(&format!("iptables -t nat -A {rule}")).unwrap();
    }
}

/// Another namespace, with a link to the test's own. Dropping it removes it.
pub struct OtherNamespace {
    name: String,
    own: File,
    other: File,
}

impl OtherNamespace {
    fn new() -> Self {
        let own = std::env::var(INSIDE).unwrap();
        let name = format!("{own}-b");
        let all = [
            format!("ip netns add {name}"),
            format!("ip link add link-a type veth peer name link-b netns {name}"),
            format!("ip addr add {CLIENTS}/24 dev link-a"),
            "ip link set link-a up".to_owned(),
            format!("ip -n {name} addr add {SERVERS}/24 dev link-b"),
            format!("ip -n {name} link set link-b up"),
            format!("ip -n {name} link set lo up"),
            format!("ip -n {name} route add default via {CLIENTS}"),
            // Services are routed to the link, where redirection takes their connections.
            "ip route del default".to_owned(),
            format!("ip route add default via {SERVERS}"),
        ];
        for line in all {
            run(&line).unwrap();
        }
        let open = |name: &str| File::open(format!("/var/run/netns/{name}")).unwrap();
        Self {
            own: open(&own),
            other: open(&name),
            name,
        }
    }

    /// Runs a future inside: its sockets and processes are there.
    pub fn enter<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        Inside {
            namespace: self,
            future: Box::pin(future),
        }
    }
}

impl Drop for OtherNamespace {
    fn drop(&mut self) {
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}

/// A future that is polled inside of another namespace. The test has one thread.
struct Inside<'a, F> {
    namespace: &'a OtherNamespace,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Inside<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        go_to(&self.namespace.other);
        let polled = self.future.as_mut().poll(cx);
        go_to(&self.namespace.own);
        polled
    }
}

fn go_to(namespace: &File) {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).unwrap();
}
