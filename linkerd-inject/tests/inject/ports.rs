//! The ports of containers in the proxy's environment.

use crate::{deployment, text_of};
use linkerd_inject::InjectOptions;

const SPEC: &str = "initContainers:
- name: first
  securityContext: {runAsUser: 2102}
  ports: [{containerPort: 4143}, {containerPort: none}]
- name: never
  restartPolicy: Never
  ports: [{containerPort: 4140}]
- name: native
  restartPolicy: Always
  ports: [{containerPort: 9000, name: db}, {containerPort: 8080}]
containers:
- name: web
  ports:
  - {containerPort: 0x50}
  - {containerPort: 8_081}
  - {containerPort: 8080, protocol: TCP}
  - {containerPort: 4143, protocol: UDP}
";

/// Containers that end before the application starts use no port beside the proxy.
#[test]
fn ports_of_native_sidecars_count_and_those_of_init_containers_do_not() {
    let text = deployment(
        "annotations: {config.linkerd.io/opaque-ports: 'db,25'}",
        SPEC,
    );
    let after = text_of(&text, &InjectOptions::default());
    let value = |name: &str| {
        let (_, rest) = after
            .split_once(&format!("name: LINKERD2_PROXY_{name}\n"))
            .unwrap();
        let line = rest.lines().next().unwrap();
        line.trim().trim_start_matches("value: ").to_owned()
    };
    assert_eq!(value("INBOUND_PORTS"), "\"80,8081,8080,9000\"");
    let opaque = "INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
    assert_eq!(value(opaque), "\"9000,25\"");
}
