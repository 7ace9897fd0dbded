//! The mesh file.

use super::Target;
use linkerd_api_client::convert::{client_policy, profile_update};
use linkerd_control::Mesh;

pub(super) const TARGET: Target = Target {
    name: "mesh",
    run,
    seeds: || {
        let shown = include_str!("../../../linkerd-control/README.md");
        let blocks = shown.split("```");
        let mut yaml = blocks.filter_map(|block| block.strip_prefix("yaml\n"));
        let seeds = [
            yaml.next().unwrap_or_default(),
            "services: []\n",
            "services:\n  - {name: a, port: 80, endpoints: [127.0.0.1:1]}\n",
            "services:\n  - &a {name: a, port: 80}\n  - *a\n",
            "services:\n  - name: a\n    port: 99999\n    endpoints:\n      - {address: nope, weight: -1}\n",
            yaml.next().unwrap_or_default(),
            GRPC,
            "services:\n- name: a\n  port: 1\n  routes: [{rules: [{retry: {codes: [5xx, 1-2]}, matches: [{path: {type: \
             RegularExpression, value: '('}}]}]}]\n",
        ];
        super::texts(&seeds)
    },
    words: &[
        b"services:",
        b"name: ",
        b"port: ",
        b"endpoints:",
        b"backends:",
        b"weight: ",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!binary ",
        b"- ",
        b"{",
        b"}",
        b"[",
        b"]",
        b": ",
        b"\n",
        b"4294967296",
        b"routes: ",
        b"rules: ",
        b"matches: ",
        b"filters: ",
        b"backendRefs: ",
        b"timeouts: ",
        b"retry: ",
        b"codes: ",
        b"breaker: ",
        b"profile: ",
        b"condition: ",
        b"type: ",
        b"value: ",
        b"RegularExpression",
        b"protocol: grpc",
        b"1m30s",
        b"0.5",
        b"---\n",
    ],
};

const GRPC: &str = "services:
- name: a
  port: 1
  protocol: grpc
  routes:
  - rules:
    - matches: [{method: {service: a.B, method: C}, headers: [{name: a, type: RegularExpression, value: b+}]}]
      filters: [{failureInjector: {code: UNAVAILABLE, percent: 0.5}}]
      retry: {codes: [INTERNAL], backoff: 1m30s}
";

/// An error has a position and a reason. The proxy can use every policy and profile of an accepted file.
fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Mesh::parse("fuzz.yaml", &text) {
        Ok(mesh) => {
            assert!(mesh.authorities().count() >= mesh.services());
            for (policy, profile) in mesh.messages() {
                assert_eq!(client_policy(policy).invalid, None);
                let ignored = profile_update(profile, 80).ignored;
                assert!(ignored.is_empty(), "{ignored:?}");
            }
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with("fuzz.yaml"), "{shown}");
        }
    }
}
