use crate::{decision::InjectMode, settings::ProxySettings, sidecar::MeshInstallation};

/// The installation, the defaults and the mode of an injection.
#[derive(Clone, Debug, Default)]
pub struct InjectOptions {
    /// The mesh that pods join.
    pub mesh: MeshInstallation,
    /// The settings of workloads and namespaces without annotations.
    pub settings: ProxySettings,
    /// The decision for workloads without an annotation.
    pub mode: InjectMode,
    /// The namespace of workloads without one.
    pub namespace: Option<String>,
}
