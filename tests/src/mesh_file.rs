//! A mesh file, and proxies that use it as their control plane.

use crate::{Builder, Proxy};
use std::path::{Path, PathBuf};

/// A mesh file, removed on drop.
pub struct MeshFile(PathBuf);

impl MeshFile {
    /// Writes a file for the test `name`.
    pub fn new(name: &str, text: &str) -> Self {
        let file = format!("linkerd-tests-{}-{name}.yaml", std::process::id());
        let this = Self(std::env::temp_dir().join(file));
        this.write(text);
        this
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Replaces the text.
    pub fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    /// Starts a proxy with `run --mesh`.
    pub async fn start(&self) -> Proxy {
        self.builder().start().await
    }

    /// A builder of a proxy with `run --mesh`.
    pub fn builder(&self) -> Builder {
        // The address of a control plane would name another source.
        Proxy::builder("127.0.0.1:1".parse().unwrap())
            .without("LINKERD2_PROXY_DESTINATION_SVC_ADDR")
            .without("LINKERD2_PROXY_POLICY_SVC_ADDR")
            .without("LINKERD2_PROXY_POLICY_WORKLOAD")
            .arg("run")
            .arg("--mesh")
            .arg(self.0.to_str().unwrap())
    }
}

impl Drop for MeshFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
