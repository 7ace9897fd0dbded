//! The paths between two pods: with a proxy on either side, on both, or on one.

use linkerd_control::Protocol;
use linkerd_tests::{
    Builder,
    netns::{Cluster, ClusterPod, SERVICE},
};
use std::net::SocketAddr;

/// A cluster with a meshed client, an unmeshed one, and two servers of the same kinds.
pub struct Ways {
    pub cluster: Cluster,
    /// A meshed client.
    pub web: ClusterPod,
    /// A meshed server.
    pub api: ClusterPod,
    /// A pod without a proxy.
    pub plain: ClusterPod,
}

/// One path.
pub struct Way<'a> {
    pub name: &'static str,
    pub client: &'a ClusterPod,
    /// The server's address for the client.
    pub to: SocketAddr,
}

impl Ways {
    pub async fn start() -> Self {
        Self::start_with(|proxy| proxy).await
    }

    /// Paths with proxies that wait for the first bytes of a client for a second.
    pub async fn impatient() -> Self {
        let detect = |direction: &str| format!("LINKERD2_PROXY_{direction}_DETECT_TIMEOUT");
        Self::start_with(|proxy| {
            let proxy = proxy.env(&detect("INBOUND"), "1s");
            proxy.env(&detect("OUTBOUND"), "1s")
        })
        .await
    }

    pub async fn start_with(describe: impl Fn(Builder) -> Builder) -> Self {
        let cluster = Cluster::start().await;
        let web = cluster.pod_with("web", &describe).await;
        let api = cluster.pod_with("api", &describe).await;
        let plain = cluster.plain_pod();
        Self {
            cluster,
            web,
            api,
            plain,
        }
    }

    /// All paths to a server that listens on `port` of `api` and of `plain`. No protocol is configured.
    pub fn to(&self, port: u16) -> [Way<'_>; 3] {
        let service = SocketAddr::new(SERVICE.ip(), port);
        let endpoint = self.api.endpoint(port);
        self.cluster.service(service, Protocol::Detect, [endpoint]);
        let way = |name, client, to| Way { name, client, to };
        [
            way("meshed to meshed", &self.web, service),
            way("meshed to plain", &self.web, self.plain.at(port)),
            way("plain to meshed", &self.plain, self.api.at(port)),
        ]
    }

    /// The pods with servers.
    pub fn servers(&self) -> [&ClusterPod; 2] {
        [&self.api, &self.plain]
    }
}
