//! Tests of the configuration as a whole: environments in, configurations or reports out.

mod access_log;
mod addresses;
mod defaults;
mod errors;
mod fields;
mod grammars;
mod hedging;
mod identity;
mod injected;
mod output;
mod tap;
mod trace;
mod warnings;

use super::*;

/// The required variables: a control plane on loopback.
const REQUIRED: [(&str, &str); 3] = [
    ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", "127.0.0.1:8086"),
    ("LINKERD2_PROXY_POLICY_SVC_ADDR", "localhost.:8090"),
    ("LINKERD2_PROXY_POLICY_WORKLOAD", "{\"ns\":\"a\"}\n"),
];

/// All variables of an identity that are needed together.
const IDENTITY: &[(&str, &str)] = &[
    (
        "IDENTITY_LOCAL_NAME",
        "default.a.serviceaccount.identity.linkerd.cluster.local",
    ),
    ("IDENTITY_TRUST_ANCHORS", "anchors"),
    ("IDENTITY_DIR", "/identity"),
    ("IDENTITY_TOKEN_FILE", "/token"),
    ("IDENTITY_SVC_ADDR", "identity.linkerd:8080"),
    ("IDENTITY_SVC_NAME", "identity.linkerd.identity"),
];

/// The required variables and some more, which may replace them. Names are written without `LINKERD2_PROXY_` unless
/// they have another prefix.
fn env(vars: &[(&str, &str)]) -> Env {
    let mut env: Env = REQUIRED.into_iter().collect();
    for (name, value) in vars {
        env.set(full(name), *value);
    }
    env
}

fn full(name: &str) -> String {
    match name.starts_with("LINKERD") || VARIABLES.iter().any(|variable| variable.name == name) {
        true => name.to_owned(),
        false => format!("LINKERD2_PROXY_{name}"),
    }
}

fn load(vars: &[(&str, &str)]) -> Config {
    loaded(vars).config
}

fn loaded(vars: &[(&str, &str)]) -> LoadedConfig {
    Config::load(&env(vars)).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(vars: &[(&str, &str)]) -> ConfigErrors {
    Config::load(&env(vars)).expect_err("the configuration should be refused")
}

/// The messages of all errors.
fn messages(errors: &ConfigErrors) -> Vec<String> {
    errors.errors.iter().map(ToString::to_string).collect()
}
