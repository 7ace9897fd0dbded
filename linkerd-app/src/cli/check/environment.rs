//! The environment and a mesh file.

use super::report::CheckLine;
use crate::{
    cli::mesh,
    config::{Config, Env, LoadedConfig, variables},
};
use linkerd_control::{Mesh, MeshError};
use std::{net::Ipv4Addr, path::Path};

/// The lines of a mesh file and of the environment, and the configuration if it is valid.
pub(super) fn check(
    mut env: Env,
    mesh: Option<&Path>,
) -> (Vec<CheckLine>, Option<CheckedEnvironment>) {
    let mut lines = Vec::new();
    let has_embedded_controller =
        mesh.is_some() && !env.is_set(variables::DESTINATION_SVC_ADDR.name());
    if let Some(path) = mesh {
        lines.extend(mesh_file(path));
        // As `run --mesh` completes it; the real port is known only when it listens.
        mesh::complete(&mut env, (Ipv4Addr::LOCALHOST, 8086).into());
    }
    match Config::load(&env) {
        Ok(loaded) => {
            let set = loaded
                .effective
                .iter()
                .filter(|value| env.is_set(value.variable.name));
            let whose = match has_embedded_controller {
                true => ", those of run --mesh among them",
                false => "",
            };
            let detail = format!("valid, {}{whose}", count(set.count(), "variable"));
            lines.push(CheckLine::ok("environment", detail));
            lines.extend(loaded.warnings.iter().map(warning));
            let checked = CheckedEnvironment {
                loaded: Box::new(loaded),
                has_embedded_controller,
                is_in_pod: env.is_set(KUBERNETES),
            };
            (lines, Some(checked))
        }
        Err(errors) => {
            lines.extend(errors.errors.iter().map(|error| {
                let fix = error
                    .fix()
                    .unwrap_or("correct the variable: docs/env.md describes it");
                CheckLine::misconfigured("environment", error.to_string()).fix(fix)
            }));
            lines.extend(errors.warnings.iter().map(warning));
            (lines, None)
        }
    }
}

/// A valid environment.
pub(super) struct CheckedEnvironment {
    /// The configuration.
    pub(super) loaded: Box<LoadedConfig>,
    /// Whether the control plane is that of `run --mesh`, which does not run now.
    pub(super) has_embedded_controller: bool,
    /// Whether this is a pod of Kubernetes.
    pub(super) is_in_pod: bool,
}

/// The lines of a mesh file alone.
pub(super) fn mesh_file(path: &Path) -> Vec<CheckLine> {
    match Mesh::read(path) {
        Ok(mesh) => {
            let servers = match mesh.servers().count() {
                0 => String::new(),
                servers => format!(", and {}", count(servers, "server")),
            };
            let detail = format!(
                "{}: {} and {}{servers}",
                path.display(),
                count(mesh.services(), "service"),
                count(mesh.endpoints(), "endpoint")
            );
            let empty = mesh.without_endpoints().take(MAX_EMPTY).map(|name| {
                let problem = format!(
                    "the service {name} has no endpoint: its requests are answered with 503"
                );
                let fix = "list their addresses under its `endpoints`";
                CheckLine::warn("mesh file", problem).fix(fix)
            });
            let ok = CheckLine::ok("mesh file", detail);
            [ok].into_iter().chain(empty).collect()
        }
        Err(error) => {
            let text = error.to_string();
            let problems = text.lines();
            let fix = match error {
                MeshError::Read { .. } => "name a file that this user can read",
                MeshError::Invalid { .. } => {
                    "correct that line: linkerd-control/README.md describes the file"
                }
            };
            let line = |problem| CheckLine::misconfigured("mesh file", problem).fix(fix);
            problems.map(line).collect()
        }
    }
}

fn warning(text: &String) -> CheckLine {
    CheckLine::warn("environment", text)
}

fn count(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The services without endpoints that are named.
const MAX_EMPTY: usize = 10;

/// Set in each container of Kubernetes.
const KUBERNETES: &str = "KUBERNETES_SERVICE_HOST";
