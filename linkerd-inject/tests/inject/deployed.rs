//! The shipped manifests: the controller's, the rendered chart, and the example, with and without sidecars.

mod installation;

use crate::{text_of, types::check, yaml_values::documents};
use installation::{Installation, objects_in};
use linkerd_inject::InjectOptions;
use serde_json::Value;
use std::{fs, path::Path};

#[test]
fn all_manifests_have_only_fields_that_kubernetes_knows() {
    for installation in installations() {
        let all = installation.all().chain(&installation.example);
        let count: usize = all.map(|object| check(&installation.name, object)).sum();
        assert!(count >= 17, "{}: {count}", installation.name);
    }
    for values in ["default", "all"] {
        let objects = objects_in(&format!("helm/rendered/{values}.yaml"));
        let count: usize = objects.iter().map(|object| check(values, object)).sum();
        assert_eq!(count, 8, "{values}");
    }
}

#[test]
fn the_image_is_that_of_sidecars() {
    let image = format!("linkerd-proxy:{}", env!("CARGO_PKG_VERSION"));
    for path in ["kubernetes/control", "helm/rendered/default.yaml"] {
        let installation = Installation::of(path);
        let control = installation.object("Deployment", "linkerd-control");
        let container = &control["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        let pods = installation.sidecars();
        assert!(pods.iter().all(|pod| pod.image() == image));
    }
}

#[test]
fn kustomizations_name_all_files() {
    for (folder, parts) in [
        ("kubernetes", 2),
        ("kubernetes/control", 7),
        ("kubernetes/example", 4),
    ] {
        let path = deploy().join(folder);
        let text = fs::read_to_string(path.join("kustomization.yaml")).unwrap();
        let named = texts(&documents(&text)[0]["resources"]);
        let mut found: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "kustomization.yaml")
            .collect();
        let mut sorted = named.clone();
        sorted.sort();
        found.sort();
        assert_eq!(sorted, found, "{folder}");
        assert_eq!(named.len(), parts, "{folder}");
    }
}

#[test]
fn sidecars_call_services_that_lead_to_the_controller() {
    for installation in installations() {
        let control = installation.object("Deployment", "linkerd-control");
        let container = &control["spec"]["template"]["spec"]["containers"][0];
        let args = texts(&container["args"]);
        let listen = args.iter().find_map(|arg| arg.strip_prefix("--listen="));
        let (_, port) = listen.unwrap().rsplit_once(':').unwrap();
        let pods = installation.sidecars();
        assert_eq!(pods.len(), 3);
        for pod in pods {
            for name in ["DESTINATION", "POLICY", "IDENTITY"] {
                let addr = pod.variable(&format!("LINKERD2_PROXY_{name}_SVC_ADDR"));
                let (host, called) = addr.rsplit_once(':').unwrap();
                let (service, rest) = host.split_once('.').unwrap();
                assert_eq!(rest, "linkerd-proxy.svc.cluster.local.");
                let ports = &installation.object("Service", service)["spec"]["ports"];
                // Several ports would yield several DNS answers.
                assert_eq!(ports.as_array().unwrap().len(), 1);
                assert_eq!(ports[0]["port"].to_string(), called);
                let target = &container["ports"][0];
                assert_eq!(ports[0]["targetPort"], target["name"]);
                assert_eq!(target["containerPort"].to_string(), port);
                let tls_name = pod.variable(&format!("LINKERD2_PROXY_{name}_SVC_NAME"));
                assert!(args.contains(&format!("--tls-name={tls_name}")), "{args:?}");
            }
        }
    }
}

#[test]
fn selectors_are_those_of_pods() {
    for installation in installations() {
        let sidecars = installation.sidecars();
        let pods = installation.pods();
        for object in installation.all().chain(&installation.example) {
            let spec = &object["spec"];
            let selector = match object["kind"].as_str().unwrap() {
                "Service" => &spec["selector"],
                "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
                "Deployment" | "PodDisruptionBudget" => &spec["selector"]["matchLabels"],
                _ => continue,
            };
            let namespace = &object["metadata"]["namespace"];
            let mut selected = pods.iter().filter(|pod| pod.is_met(namespace, selector));
            assert!(selected.next().is_some(), "{object}");
            // Sidecars are still selected.
            if namespace == "shop" {
                let mut selected = sidecars
                    .iter()
                    .filter(|pod| pod.is_met(namespace, selector));
                assert!(selected.next().is_some(), "{object}");
            }
        }
        let policy = installation.object("NetworkPolicy", "linkerd-control");
        let clients = &policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
        let shop = Value::from("shop");
        assert!(sidecars.iter().all(|pod| pod.is_met(&shop, clients)));
        assert!(!pods.iter().any(|pod| pod.is_met(&shop, clients)));
    }
}

/// The mesh file names Services, ports and identities that exist.
#[test]
fn the_mesh_file_is_that_of_the_example() {
    for installation in installations() {
        let mesh = installation.mesh();
        let sidecars = installation.sidecars();
        let mut pods_of_services = 0;
        for service in mesh["services"].as_array().unwrap() {
            let own = name_of(service);
            for address in texts(&service["addresses"]) {
                assert_eq!(address, own);
                let spec = &installation.service_named(&address)["spec"];
                assert_eq!(spec["clusterIP"], Value::Null);
                assert_eq!(spec["ports"][0]["port"], service["port"]);
            }
            for endpoint in texts(&service["endpoints"]) {
                let (host, port) = endpoint.rsplit_once(':').unwrap();
                let headless = installation.service_named(host);
                let spec = &headless["spec"];
                assert_eq!(spec["clusterIP"], "None");
                assert_eq!(spec["ports"][0]["port"].to_string(), port);
                let namespace = &headless["metadata"]["namespace"];
                for pod in sidecars
                    .iter()
                    .filter(|pod| pod.is_met(namespace, &spec["selector"]))
                {
                    let identity = pod.variable("LINKERD2_PROXY_IDENTITY_LOCAL_NAME");
                    assert_eq!(service["identity"], identity);
                    let inbound = pod.variable("LINKERD2_PROXY_INBOUND_LISTEN_ADDR");
                    assert_eq!(inbound, format!("0.0.0.0:{}", service["proxyPort"]));
                    assert_eq!(pod.variable("LINKERD2_PROXY_INBOUND_PORTS"), port);
                    pods_of_services += 1;
                }
            }
        }
        assert_eq!(pods_of_services, 2);
        let server = &mesh["servers"][0];
        let clients = texts(&server["authorizations"][0]["identities"]);
        let mut identities = sidecars
            .iter()
            .map(|pod| pod.variable("LINKERD2_PROXY_IDENTITY_LOCAL_NAME"));
        assert!(
            clients
                .iter()
                .all(|client| identities.any(|it| it == *client))
        );
    }
}

/// The controller is not part of the mesh.
#[test]
fn the_controller_gets_no_sidecar() {
    for installation in installations() {
        for object in installation.all() {
            let text = serde_json::to_string(object).unwrap();
            assert_eq!(text_of(&text, &InjectOptions::default()), text);
        }
    }
}

/// The manifests, and the chart with values for the same mesh.
fn installations() -> [Installation; 2] {
    [
        Installation::of("kubernetes/control"),
        Installation::of("helm/rendered/example.yaml"),
    ]
}

/// The DNS name of a service of the mesh file.
fn name_of(service: &Value) -> String {
    let part = |name: &str| service[name].as_str().unwrap().to_owned();
    format!("{}.{}.svc.cluster.local", part("name"), part("namespace"))
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

fn deploy() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}
