//! The input of a sidecar's parts.

use crate::settings::ProxySettings;

/// The mesh that a pod joins.
#[derive(Clone, Debug)]
pub struct MeshInstallation {
    /// The namespace of the control plane.
    pub control_plane_namespace: String,
    /// The domain of identities.
    pub trust_domain: String,
    /// The domain of the cluster's services.
    pub cluster_domain: String,
    /// Certificates in PEM; without them, the ConfigMap `linkerd-identity-trust-roots` in the pod's namespace.
    pub trust_anchors: Option<String>,
    /// Whether a CNI plugin redirects traffic, so that the init container only checks it.
    pub cni: bool,
    /// Whether pods have IPv6 addresses.
    pub ipv6: bool,
}

impl Default for MeshInstallation {
    fn default() -> Self {
        Self {
            control_plane_namespace: "linkerd".to_owned(),
            trust_domain: "cluster.local".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            trust_anchors: None,
            cni: false,
            ipv6: false,
        }
    }
}

/// The input of a sidecar: of the mesh, of the settings and of the pod.
pub(crate) struct Sidecar<'a> {
    pub(crate) mesh: &'a MeshInstallation,
    pub(crate) settings: &'a ProxySettings,
    /// Whether requests name their service, as in an ingress controller's pod.
    pub(crate) ingress: bool,
    /// The ports of the pod's containers, in their order.
    pub(crate) container_ports: Vec<u16>,
    /// The opaque ports, with names resolved.
    pub(crate) opaque_ports: String,
}
