//! A cluster of one node; each pod has its own namespace, address and redirection.

use super::{ClusterPod, Directory, PROXY_UID, PodNamespace, pod_namespace::BRIDGE, run};
use crate::{Builder, Proxy, binary, identity, with_identity};
use linkerd_control::{Authority, Controller, Endpoint, EndpointSet, Policy, Protocol, Server};
use std::{
    cell::Cell,
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// A node in the test's namespace, with the control plane of a mesh.
pub struct Cluster {
    /// The control plane's state.
    pub controller: Controller,
    control: Server,
    anchors: String,
    pods: Cell<u8>,
    files: TempDir,
    directory: Directory,
}

impl Cluster {
    /// Creates the bridge of the pods, and starts the control plane. Must be called inside a namespace.
    pub async fn start() -> Self {
        for line in [
            // With its own MAC: otherwise it takes that of a new pod, and packets from other pods to the node are lost for seconds.
            format!("ip link add {BRIDGE} address 02:00:0a:58:00:01 type bridge"),
            format!("ip addr add {NODE}/16 dev {BRIDGE}"),
            format!("ip link set {BRIDGE} up"),
        ] {
            run(&line).unwrap();
        }
        let authority = Authority::generate("root").unwrap();
        let anchors = authority.trust_anchors().to_owned();
        let controller = Controller::new();
        let listener = TcpListener::bind((NODE, 0)).await.unwrap();
        let name = identity("control");
        let control = controller.serve_tls(listener, &authority, &[name]).unwrap();
        controller.identity().authority(authority);
        Self {
            controller,
            control,
            anchors,
            pods: Cell::new(0),
            files: tempfile::tempdir().unwrap(),
            directory: Directory::new(),
        }
    }

    /// A pod without a proxy.
    pub fn plain_pod(&self) -> ClusterPod {
        let number = self.pods.get() + 1;
        self.pods.set(number);
        let [a, b, c, d] = NODE.octets();
        let addr = Ipv4Addr::new(a, b, c, d + number);
        ClusterPod {
            addr,
            proxy: None,
            identity: String::new(),
            namespace: PodNamespace::new(number, addr, NODE),
        }
    }

    /// A pod with a ready proxy, for the service account `name`.
    pub async fn pod(&self, name: &str) -> ClusterPod {
        self.pod_with(name, |proxy| proxy).await
    }

    /// A pod with a ready proxy, whose settings differ from those of the injector.
    pub async fn pod_with(
        &self,
        name: &str,
        describe: impl FnOnce(Builder) -> Builder,
    ) -> ClusterPod {
        self.pod_starting(name, async |builder| describe(builder).start().await)
            .await
    }

    /// A pod whose proxy listens, but may not be ready.
    pub async fn unready_pod(&self, name: &str) -> ClusterPod {
        self.pod_starting(name, async |builder| builder.start_unready().await)
            .await
    }

    async fn pod_starting(
        &self,
        name: &str,
        start: impl AsyncFnOnce(Builder) -> Proxy,
    ) -> ClusterPod {
        let pod = self.plain_pod();
        let init = format!("{} init {INIT}", binary().display());
        pod.namespace.run(&init).unwrap();
        let builder = self.proxy(name, &pod);
        let proxy = pod.enter(start(builder)).await;
        ClusterPod {
            proxy: Some(proxy),
            identity: identity(name),
            ..pod
        }
    }

    /// A proxy with the environment of the injector.
    fn proxy(&self, name: &str, pod: &ClusterPod) -> Builder {
        let files = self.files.path().join(pod.addr.to_string());
        fs::create_dir_all(&files).unwrap();
        for directory in [self.files.path(), &files] {
            fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).unwrap();
        }
        let control = self.control.addr();
        let mut builder = with_identity(control, &self.anchors, name, &files);
        for service in ["DESTINATION", "POLICY", "IDENTITY"] {
            let variable = format!("LINKERD2_PROXY_{service}_SVC_ADDR");
            builder = builder.env(&variable, control);
        }
        for (variable, value) in INJECTED {
            builder = builder.env(&format!("LINKERD2_PROXY_{variable}"), value);
        }
        builder
            .without("LINKERD_PROXY_OUTBOUND_EXPLICIT")
            .without("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK")
            .env("LINKERD2_PROXY_INBOUND_IPS", pod.addr)
            .program(self.directory.program())
            .uid(PROXY_UID)
    }

    /// Declares a service of a protocol at [`address`](super::SERVICE) and port, with its endpoints.
    pub fn service(
        &self,
        service: SocketAddr,
        protocol: Protocol,
        endpoints: impl IntoIterator<Item = Endpoint>,
    ) {
        let name = format!("service-{}", service.port());
        let policy = Policy::balance(&name, 80).protocol(protocol);
        self.controller.policy(service.to_string()).set(policy);
        self.endpoints(service, endpoints);
    }

    /// Replaces the endpoints of a service.
    pub fn endpoints(&self, service: SocketAddr, endpoints: impl IntoIterator<Item = Endpoint>) {
        let path = format!("service-{}.default.svc.cluster.local:80", service.port());
        let destination = self.controller.destination(path);
        destination.set(EndpointSet::new(endpoints));
    }
}

/// The address of the node; the addresses of the pods follow it.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);

/// The arguments of a pod's init container.
const INIT: &str = "--ipv6=false --incoming-proxy-port 4143 --outgoing-proxy-port 4140 --proxy-uid 2102 \
                    --inbound-ports-to-ignore 4190,4191,4567,4568 --outbound-ports-to-ignore 4567,4568";

/// The injector's settings for connections.
const INJECTED: &[(&str, &str)] = &[
    ("OUTBOUND_LISTEN_ADDRS", "127.0.0.1:4140"),
    ("INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
    ("ADMIN_LISTEN_ADDR", "0.0.0.0:4191"),
    ("INBOUND_ACCEPT_KEEPALIVE", "10000ms"),
    ("OUTBOUND_CONNECT_KEEPALIVE", "10000ms"),
    ("INBOUND_ACCEPT_USER_TIMEOUT", "30s"),
    ("OUTBOUND_CONNECT_USER_TIMEOUT", "30s"),
    ("INBOUND_CONNECT_TIMEOUT", "100ms"),
    ("OUTBOUND_CONNECT_TIMEOUT", "1000ms"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"),
    ("OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    ("INBOUND_DEFAULT_POLICY", "all-unauthenticated"),
    ("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "5s"),
    ("INBOUND_DISCOVERY_IDLE_TIMEOUT", "90s"),
    ("CORES", "1"),
];
