//! A configuration of a test.

use crate::config::{Config, Env};

/// The default configuration with these variables. The control plane that it names is not called.
pub fn config(variables: &[(&str, &str)]) -> Config {
    let control_plane = [
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", "127.0.0.1:8086"),
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", "127.0.0.1:8090"),
        ("LINKERD2_PROXY_POLICY_WORKLOAD", "test"),
    ];
    let env: Env = control_plane
        .into_iter()
        .chain(variables.iter().copied())
        .collect();
    Config::load(&env).unwrap().config
}
