//! The mesh file.

use super::Target;
use linkerd_control::Mesh;

pub(super) const TARGET: Target = Target {
    name: "mesh",
    run,
    seeds: || {
        let shown = include_str!("../../../linkerd-control/README.md");
        let mut blocks = shown.split("```");
        let yaml = blocks.find_map(|block| block.strip_prefix("yaml\n"));
        let seeds = [
            yaml.unwrap_or_default(),
            "services: []\n",
            "services:\n  - {name: a, port: 80, endpoints: [127.0.0.1:1]}\n",
            "services:\n  - &a {name: a, port: 80}\n  - *a\n",
            "services:\n  - name: a\n    port: 99999\n    endpoints:\n      - {address: nope, weight: -1}\n",
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
        b"---\n",
    ],
};

/// An error has a position and a reason.
fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Mesh::parse("fuzz.yaml", &text) {
        Ok(mesh) => {
            assert!(mesh.authorities().count() >= mesh.services());
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with("fuzz.yaml"), "{shown}");
        }
    }
}
