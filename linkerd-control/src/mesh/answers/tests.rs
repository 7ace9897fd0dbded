use super::*;
use crate::controller::Controller;
use crate::lookups::LookupKind;
use linkerd_api_proto::outbound::proxy_protocol;

fn answers(text: &str) -> MeshAnswers {
    mesh(text).answers(&Known::new())
}

fn mesh(text: &str) -> Mesh {
    Mesh::parse("mesh.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_service_is_known_by_all_its_names_and_addresses() {
    let answers = answers(
        "
services:
  - name: web
    namespace: shop
    port: 80
    addresses: [10.0.0.10, 'fd00::10']
    hostnames: [web.local]
    endpoints: [127.0.0.1:9001]
",
    );
    let names = [
        "web",
        "web.shop",
        "web.shop.svc",
        "web.shop.svc.cluster.local",
        "web.local",
    ];
    for name in names {
        let target = format!("{name}:80");
        assert_eq!(answers.destinations[&target].len(), 1, "{target}");
    }
    let expected = Policy::balance("web", 80).namespace("shop").build();
    let addresses = ["10.0.0.10:80".to_owned(), "[fd00::10]:80".to_owned()];
    for target in names.map(|n| format!("{n}:80")).iter().chain(&addresses) {
        assert_eq!(*answers.policies[target], expected, "{target}");
        let profile = &answers.profiles[target];
        assert_eq!(
            profile.fully_qualified_name, "web.shop.svc.cluster.local",
            "{target}"
        );
    }
}

#[test]
fn an_endpoint_is_known_by_its_address_unless_a_service_is() {
    let answers = answers(
        "
services:
  - name: db
    port: 5432
    protocol: opaque
    labels: {tier: back}
    endpoints: [{address: 10.0.0.7:5432, labels: {zone: a}}, 10.0.0.8:80]
  - {name: web, port: 80, addresses: [10.0.0.8]}
",
    );
    let profile = &answers.profiles["10.0.0.7:5432"];
    assert!(profile.opaque_protocol);
    let labels = &profile
        .endpoint
        .as_ref()
        .expect("an endpoint")
        .metric_labels;
    assert_eq!((&*labels["tier"], &*labels["zone"]), ("back", "a"));
    let kind = answers.policies["10.0.0.7:5432"].protocol.as_ref();
    let kind = kind.and_then(|p| p.kind.as_ref());
    assert!(matches!(kind, Some(proxy_protocol::Kind::Opaque(_))));

    assert_eq!(
        *answers.policies["10.0.0.8:80"],
        Policy::balance("web", 80).build()
    );
}

#[test]
fn the_bare_name_is_the_one_of_the_default_namespace() {
    let answers = answers(
        "
services:
  - {name: web, namespace: shop, port: 80}
  - {name: web, port: 80}
  - {name: db, namespace: shop, port: 80}
  - {name: db, namespace: mall, port: 80}
",
    );
    let full = |target| &*answers.profiles[target].fully_qualified_name;
    assert_eq!(full("web:80"), "web.default.svc.cluster.local");
    assert_eq!(full("db:80"), "db.shop.svc.cluster.local");
}

#[test]
fn backends_split_the_traffic() {
    let answers = answers(
        "
services:
  - {name: web, ports: [80, 81], backends: [{service: a, weight: 9}, {service: b}]}
  - {name: a, ports: [80, 81]}
  - {name: b, namespace: default, port: 9}
",
    );
    let expected = Policy::weighted("web", 81, [("a", 81, 9), ("b", 9, 1)]).build();
    assert_eq!(*answers.policies["web:81"], expected);
}

#[test]
fn what_a_new_mesh_lacks_becomes_unknown_and_what_a_test_set_stays() {
    let controller = Controller::new();
    controller.policy("own:80").set(Policy::balance("own", 80));
    controller.apply(&mesh(
        "services: [{name: a, port: 80}, {name: b, port: 80}]",
    ));
    controller.apply(&mesh("services: [{name: b, port: 80}]"));

    let tables = controller.state.tables.lock();
    let known = |target: &str| {
        let key = TargetKey::One(target.to_owned());
        (
            tables.destinations.content(&key).is_some(),
            tables.profiles.content(&key).is_some(),
            tables.policies.content(&key).is_some(),
        )
    };
    assert_eq!(known("a:80"), (false, false, false));
    assert_eq!(known("b:80"), (true, true, true));
    assert_eq!(known("own:80"), (false, false, true));
    drop(tables);
    assert_eq!(controller.open_streams(LookupKind::Policy, "b:80"), 0);
}

#[test]
fn an_endpoint_that_is_a_host_name_has_the_addresses_of_the_name() {
    let mesh = mesh(
        "
services:
  - name: web
    port: 80
    endpoints: [localhost:9001, 127.0.0.1:9002, {address: 'Backend.Internal.:80', weight: 2}]
",
    );
    assert_eq!(mesh.endpoints(), 3);
    let hosts = ["backend.internal".to_owned(), "localhost".to_owned()];
    assert_eq!(mesh.hosts(), hosts.clone().into());
    let [backend, localhost] = hosts;
    let ip = |text: &str| text.parse().expect("an address");
    let known = Known::from([
        (backend, vec![ip("10.0.0.1"), ip("10.0.0.2")]),
        (localhost, vec![ip("127.0.0.1")]),
    ]);
    let answers = mesh.answers(&known);
    assert_eq!(answers.destinations["web:80"].len(), 4);
    assert!(answers.policies.contains_key("10.0.0.2:80"));
    assert_eq!(mesh.answers(&Known::new()).destinations["web:80"].len(), 1);
}

#[test]
fn an_address_that_is_a_host_name_has_the_addresses_of_the_name() {
    let mesh = mesh(
        "
services:
  - name: web
    namespace: shop
    port: 80
    addresses: [web.shop.svc.cluster.local.]
    endpoints: [web-pods.shop.svc.cluster.local:8080]
  - {name: other, port: 80, addresses: [10.96.0.8]}
",
    );
    let [service, pods] = ["web", "web-pods"].map(|name| format!("{name}.shop.svc.cluster.local"));
    assert_eq!(mesh.hosts(), [service.clone(), pods.clone()].into());
    let ip = |text: &str| text.parse().expect("an address");
    let known = Known::from([
        (service, vec![ip("10.96.0.7"), ip("10.96.0.8")]),
        (pods, vec![ip("10.244.0.1")]),
    ]);
    let answers = mesh.answers(&known);
    let web = Policy::balance("web", 80).namespace("shop").build();
    assert_eq!(*answers.policies["10.96.0.7:80"], web);
    // A declared address comes first.
    assert_eq!(
        *answers.policies["10.96.0.8:80"],
        Policy::balance("other", 80).build()
    );
    let before = mesh.answers(&Known::new());
    assert!(!before.policies.contains_key("10.96.0.7:80"));
}
