//! The policies of inbound ports in a mesh file.

use crate::{application, get, peer, pod_watching, port_of, until_status};
use linkerd_tests::{MeshFile, netns::isolated};

#[test]
fn a_person_lets_a_denied_caller_in_by_editing_the_file() {
    isolated(
        "mesh_file::a_person_lets_a_denied_caller_in_by_editing_the_file",
        async {
            let application = application().await;
            let port = port_of(&application);
            let text = |networks: &str| {
                format!(
                    "
services: []
servers:
  - name: app
    port: {port}
    routes:
      - name: admin
        rules: [{{matches: [{{path: {{value: /admin}}}}]}}]
        authorizations: [{{name: callers, networks: [{networks}]}}]
"
                )
            };
            let file = MeshFile::new("servers", &text("192.0.2.0/24"));
            let pod = pod_watching(port).await;
            let _watch = linkerd_control::watch_file(pod.controller.clone(), file.path()).await;
            let mut client = peer(application.addr()).await;
            until_status(&mut client, "/admin", 403).await;
            assert_eq!(get(&mut client, "/").await.status, 404);
            let line = pod.proxy.wait_for_log("Request denied").await;
            assert!(line.contains("authorizationpolicy/callers"), "{line}");
            file.write(&text("192.0.2.0/24, 10.77.0.0/16"));
            until_status(&mut client, "/admin", 200).await;
            assert!(client.is_open());
        },
    );
}
