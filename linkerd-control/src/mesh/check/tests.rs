use crate::mesh::{Mesh, MeshError};

fn problems(text: &str) -> String {
    match Mesh::parse("mesh.yaml", text) {
        Ok(mesh) => panic!("accepted: {mesh:?}"),
        Err(error @ MeshError::Invalid { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn probe() {
    for text in [
        "services:\n  - name: web\n   port: 80\n",
        "services:\n  - name: web\n    port: 80\n    prot: detect\n",
        "services:\n  - name: web\n    port: 80\n    protocol: htp\n",
        "services:\n  - name: web\n    port: eighty\n",
        "services:\n  - name: web\n    port: -1\n",
        "services:\n  - name: web\n    port: 80\n    endpoints:\n      - adress: 127.0.0.1:1\n",
        "services:\n  - name: web\n    port: 80\n    endpoints:\n      - address: 127.0.0.1:1\n        protocol: h3\n",
        "services:\n  - name: web\n    port: 80\n    endpoints:\n      - 127.0.0.1:1\n      - 80\n",
        "services:\n  - name: web\n    port: 80\n    endpoints: 127.0.0.1:1\n",
        "services:\n  - port: 80\n",
        "",
        "services: []\nfoo: 1\n",
        "services:\n  - name: web\n    name: web\n    port: 80\n",
        "services:\n",
        "services: [\n",
        "- a\n",
        "services:\n  - name: web\n    port: 80\n    endpoints:\n    - 127.0.0.1:0\n    - address: 127.0.0.1:2\n    - web:80\n    backends: [{service: wob}]\n",
    ] {
        eprintln!("{}\n---", std::panic::catch_unwind(|| problems(text)).unwrap_or_default());
    }
    let mut big = String::from("services:\n  - name: web\n    port: 80\n    labels: {a: 1, b: true}\n    endpoints:\n");
    for i in 0..20000 { big += &format!("      - 10.0.{}.{}:80\n", i / 256, i % 256); }
    eprintln!("{:?}", Mesh::parse("x", &big).map(|m| m.endpoints()));
}
