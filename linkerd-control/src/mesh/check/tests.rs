use crate::endpoint::Endpoint;
use crate::mesh::Mesh;
use crate::mesh::model::Service;
use crate::mesh::testing::{mesh, refused};
use crate::policy::Protocol;

#[test]
fn the_grammar() {
    let mesh = mesh(
        "
services:
  - name: web
    ports:
      - 80
      - 8080
    protocol: http1
    addresses: [10.0.0.10, 'fd00::10']
    hostnames: [Web.local.]
    labels: {tier: front}
    endpoints:
      - 127.0.0.1:9001
      - address: 127.0.0.1:9002
        weight: 2
        labels: {zone: a}
        protocol: h2
      - address: '[::1]:9003'
        weight: 0.5
        protocol: opaque
  - name: split
    namespace: shop
    port: 80
    backends:
      - {service: web.default:8080, weight: 9}
      - {service: own}
  - {name: own, namespace: shop, port: 81}
",
    );
    let [web, split, own] = &mesh.services[..] else {
        panic!("{mesh:?}");
    };
    assert_eq!(
        (&*web.namespace, web.ports.as_slice()),
        ("default", &[80, 8080][..])
    );
    assert_eq!(web.protocol, Protocol::Http1);
    assert_eq!(web.addresses.len(), 2);
    assert_eq!(web.hostnames, ["web.local"]);
    assert_eq!(web.labels["tier"], "front");
    let weights: Vec<_> = web.endpoints.iter().map(|e| e.weight).collect();
    assert_eq!(weights, [10_000, 20_000, 5_000]);
    let addr = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(web.endpoints[0], Endpoint::new(addr(9001)));
    let second = Endpoint::new(addr(9002))
        .weight(20_000)
        .label("zone", "a")
        .h2();
    assert_eq!(web.endpoints[1], second);

    let backends: Vec<_> = split
        .backends
        .iter()
        .map(|b| (&*b.name, &*b.namespace, b.port, b.weight))
        .collect();
    // Without a port, the backend's only port is meant.
    assert_eq!(
        backends,
        [
            ("web", "default", Some(8080), 9),
            ("own", "shop", Some(81), 1)
        ]
    );
    assert!(own.endpoints.is_empty());
    assert_eq!(mesh.endpoints(), 3);
    let authorities: Vec<_> = mesh.authorities().take(2).collect();
    assert_eq!(
        authorities,
        [
            "web.default.svc.cluster.local:80",
            "web.default.svc.cluster.local:8080"
        ]
    );
}

#[test]
fn the_files_of_the_readme_are_good() {
    let readme = include_str!("../../../README.md");
    let blocks = readme.split("```").filter_map(|b| b.strip_prefix("yaml\n"));
    let services: Vec<_> = blocks.map(|text| mesh(text).services()).collect();
    assert_eq!(services, [5, 3, 0]);
}

#[test]
fn the_mesh_file_of_the_page_about_kubernetes_is_good() {
    let page = include_str!("../../../../docs/kubernetes.md");
    let blocks = page.split("```").filter_map(|b| b.strip_prefix("yaml\n"));
    let files: Vec<_> = blocks.filter(|b| b.starts_with("services:")).collect();
    let [file] = files[..] else {
        panic!("{files:?}")
    };
    assert_eq!(mesh(file).services(), 3);
}

#[test]
fn every_example_that_protects_ports_denies_by_default() {
    let mut protected = 0;
    for (file, text) in [
        ("README.md", include_str!("../../../../README.md")),
        (
            "docs/kubernetes.md",
            include_str!("../../../../docs/kubernetes.md"),
        ),
        (
            "linkerd-control/README.md",
            include_str!("../../../README.md"),
        ),
        (
            "linkerd-app/examples/mesh.yaml",
            include_str!("../../../../linkerd-app/examples/mesh.yaml"),
        ),
        (
            "deploy/kubernetes/control/mesh.yaml",
            include_str!("../../../../deploy/kubernetes/control/mesh.yaml"),
        ),
        (
            "deploy/helm/example-values.yaml",
            include_str!("../../../../deploy/helm/example-values.yaml"),
        ),
    ] {
        // Blocks of a page, or the whole of another file.
        for block in text.split("```") {
            if block.lines().any(|line| line.trim() == "servers:") {
                assert!(block.contains("defaultAccessPolicy: deny"), "{file}");
                protected += 1;
            }
        }
    }
    assert_eq!(protected, 6, "of each file one");
}

#[test]
fn a_service_can_share_its_traffic_with_others() {
    let mesh = mesh(
        "
services:
  - name: web
    ports: [80, 81]
    endpoints: [127.0.0.1:1]
    backends: [{service: web, weight: 9}, {service: canary.default.svc.cluster.local}]
  - {name: canary, ports: [80, 81]}
",
    );
    let web: &Service = &mesh.services[0];
    let ports: Vec<_> = web.backends.iter().map(|b| (&*b.name, b.port)).collect();
    assert_eq!(ports, [("web", None), ("canary", None)]);
}

#[test]
fn no_services_have_to_be_said() {
    assert_eq!(mesh("services: []\n").services(), 0);
}

#[test]
fn a_syntax_error_tells_the_likely_mistake() {
    let service = "services:\n  - name: web\n";
    for (lines, problem) in [
        (
            "    endpoints:\n      - 127.0.0.1:1\n     port: 80\n",
            "5:6: 5 spaces indent this line, and 4 those that it could continue, from line 2 on (",
        ),
        (
            "   port: 80\n",
            "3:4: 3 spaces indent this line, and 2 those that it could continue, from line 2 on (",
        ),
        (
            "      port: 80\n",
            "3:11: this line is indented deeper than the one before",
        ),
        (
            "\tport: 80\n",
            "2:11: a tab indents this line or the next one; use spaces (",
        ),
        (
            "    port: 1: 2\n",
            "3:12: a `:` with a space in a value needs quotes",
        ),
        (
            "    port 80\n    namespace: a\n",
            "3:5: expected `name: value` or `- item`;",
        ),
        (
            "    ports: [80\n    namespace: a\n",
            "4:14: is a `]` or `}` missing before this? (",
        ),
        (
            "    namespace: \"a\n    port: 80\n",
            "4:5: is the closing quote missing on a line before this? (",
        ),
    ] {
        refused(&format!("{service}{lines}"), problem);
    }
}

#[test]
fn a_refusal_tells_line_column_and_remedy() {
    for (text, problem) in [
        ("", "1:1: no services are given; write `services: []`"),
        ("services:\n", "1:1: no services are given"),
        ("- a\n", "1:1: expected fields, such as `name: web`"),
        ("services: [\n", "1:11: unclosed bracket"),
        (
            "services: []\nfoo: 1\n",
            "2:1: unknown field `foo`; expected services, servers or defaultAccessPolicy",
        ),
        (
            "services:\n- name: web\n  prot: 80\n",
            "3:3: unknown field `prot`; did you mean `port`?",
        ),
        ("services:\n- port: 80\n", "2:3: the service has no `name`"),
        (
            "services:\n- name: web\n  name: web\n  port: 1\n",
            "3:3: `name` is given twice; remove one",
        ),
        (
            "services:\n- name: Web\n  port: 80\n",
            "2:9: service name \"Web\" is not a DNS name; use lower-case",
        ),
        (
            "services:\n- name: web\n  namespace: -a\n  port: 1\n",
            "3:14: namespace \"-a\" is not a DNS name",
        ),
        (
            "services:\n- name: web\n",
            "2:9: the service has no port; add `port: 80`",
        ),
        (
            "services:\n- name: web\n  ports: []\n",
            "2:9: the service has no port",
        ),
        (
            "services:\n- name: web\n  port: 1\n  ports: [2]\n",
            "4:10: give either `port` or `ports`, not both",
        ),
        (
            "services:\n- name: web\n  port: 0\n",
            "3:9: 0 is not a port; use 1 to 65535",
        ),
        (
            "services:\n- name: web\n  port: -1\n",
            "3:9: -1 is not a port; use 1 to 65535",
        ),
        (
            "services:\n- name: web\n  ports: [1, 65536]\n",
            "3:14: 65536 is not a port; use 1 to 65535",
        ),
        (
            "services:\n- name: web\n  ports: [1, 1]\n",
            "3:14: port 1 is listed twice",
        ),
        (
            "services:\n- name: web\n  port: http\n",
            "3:9: expected a whole number, not `http`",
        ),
        (
            "services:\n- name: web\n  port: 1\n  protocol: h2\n",
            "4:13: `h2` is no protocol; use detect, http1, http2, grpc or opaque",
        ),
        (
            "services:\n  web:\n    port: 1\n",
            "2:3: expected a list, each item on a line that begins with `- `, not the field `web`",
        ),
        (
            "services:\n- name: web\n  port: 1\n  addresses: [10.0.0.1:80]\n",
            "4:15: \"10.0.0.1:80\" is not an IP address or a host name; write it without a port, such as 10.0.0.10; the service's servers, with their ports, belong under `endpoints`",
        ),
        (
            "services:\n- name: web\n  port: 1\n  hostnames: [web:80]\n",
            "4:15: \"web:80\" is not a host name; write it without a port",
        ),
        (
            "services:\n- name: web\n  port: 1\n- name: web\n  port: 2\n",
            "4:9: service web of namespace default is already declared in line 2",
        ),
    ] {
        refused(text, problem);
    }
}

#[test]
fn wrong_backends_are_refused() {
    for (backends, problem) in [
        (
            "[{service: wob}]",
            "4:24: backend \"wob\" names no service of this file; did you mean \"web\"?",
        ),
        (
            "[{service: web.shop}]",
            "4:24: backend \"web.shop\" names no service",
        ),
        (
            "[{service: 'web:0'}]",
            "4:24: \"0\" is not a port; use 1 to 65535",
        ),
        (
            "[{service: 'web:81'}]",
            "4:24: backend \"web:81\" has no port 81; it has 80, 90",
        ),
        (
            "[{service: two}]",
            "4:24: backend \"two\" has no port 90; it has 80, 81",
        ),
        (
            "[{service: web, weight: -1}]",
            "4:37: weight -1 is not between 0 and 1000000",
        ),
        (
            "[{service: web, weight: 0}]",
            "4:24: all backends have weight 0; give one of them",
        ),
        ("[{weight: 1}]", "4:14: the backend has no `service`"),
    ] {
        let text = format!(
            "services:\n- name: web\n  ports: [80, 90]\n  backends: {backends}\n- {{name: two, ports: [80, 81]}}\n"
        );
        refused(&text, problem);
    }
}

#[test]
fn two_services_cannot_be_at_the_same_place() {
    let two = |one: &str, other: &str| {
        format!("services:\n- {{name: a, port: 80, {one}}}\n- {{name: b, port: 80, {other}}}\n")
    };
    refused(
        &two("addresses: [10.0.0.1]", "addresses: [10.0.0.1]"),
        "3:35: 10.0.0.1:80 already belongs to a.default.svc.cluster.local",
    );
    refused(
        &two("addresses: [x.test]", "addresses: [X.test.]"),
        "3:35: the address of x.test:80 already belongs to a.default.svc.cluster.local",
    );
    refused(
        &two("hostnames: [x]", "hostnames: [X.]"),
        "3:35: x:80 already belongs to a.default.svc.cluster.local",
    );
    refused(
        &two("labels: {}", "hostnames: [a.default]"),
        "3:35: a.default:80 already belongs to a.default.svc.cluster.local",
    );
}

#[test]
fn all_problems_are_told_in_the_order_of_the_file() {
    let text = "services:\n- name: web\n  port: 0\n  backends: [{service: x}]\n- name: b\n  port: 1\n  endpoints: [a]\n";
    let error = Mesh::parse("mesh.yaml", text).expect_err("three problems");
    let lines: Vec<_> = error
        .to_string()
        .lines()
        .map(|l| l[..12].to_owned())
        .collect();
    assert_eq!(lines, ["mesh.yaml:3:", "mesh.yaml:4:", "mesh.yaml:7:"]);
}

#[test]
fn errors_of_form_do_not_hide_errors_of_content() {
    let text = "
services:
- name: web
  prot: 0
  endpoint: [127.0.0.1:0]
  protocol: h2
  weight: 1
- name: [a]
  port: b
- port: 70000
  endpoints: [{address: '127.0.0.1:1', weight: x}]
- {name: ok, port: 80, backends: [{service: gone}]}
";
    let error = Mesh::parse("m", text).expect_err("problems").to_string();
    let told: Vec<_> = error.lines().collect();
    assert_eq!(
        told,
        [
            "m:4:3: unknown field `prot`; did you mean `port`?",
            "m:4:9: 0 is not a port; use 1 to 65535",
            "m:5:3: unknown field `endpoint`; did you mean `endpoints`?",
            "m:5:14: endpoint 127.0.0.1:0 has port 0; use 1 to 65535",
            "m:6:13: `h2` is no protocol; use detect, http1, http2, grpc or opaque",
            "m:7:3: unknown field `weight`; expected name, namespace, port, ports, protocol, addresses, hostnames, \
             labels, identity, proxyPort, endpoints, backends, routes, breaker or profile",
            "m:8:9: expected a text, not a list",
            "m:9:9: expected a whole number, not `b`",
            "m:10:3: the service has no `name`",
            "m:10:9: 70000 is not a port; use 1 to 65535",
            "m:11:48: expected a number, not `x`",
        ]
    );
}

#[test]
fn what_comes_before_a_syntax_error_is_checked() {
    let text =
        "services:\n- name: web\n  port: 0\n- name: b\n  port: 1\n  endpoints: [a\n- name: c\n";
    let error = Mesh::parse("m", text).expect_err("problems").to_string();
    let told: Vec<_> = error.lines().collect();
    assert_eq!(told[0], "m:3:9: 0 is not a port; use 1 to 65535");
    assert_eq!(told.len(), 2, "{error}");
}

#[test]
fn values_are_taken_as_they_are_written() {
    let mesh = mesh(
        "
services:
- name: web
  port: '80'
  labels: {version: 1.10, on: yes}
  endpoints: &all [127.0.0.1:1]
- {name: again, port: 80, endpoints: *all}
",
    );
    let web = &mesh.services[0];
    assert_eq!(
        (&*web.labels["version"], &*web.labels["on"]),
        ("1.10", "yes")
    );
    assert_eq!(web.endpoints, mesh.services[1].endpoints);
}

#[test]
fn aliases_that_grow_without_bound_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let before = format!("*a{}, ", n - 1).repeat(10);
        text += &format!("a{n}: &a{n} [{before}]\n");
    }
    let error = Mesh::parse("m", &text).expect_err("too many").to_string();
    assert!(error.contains("aliases stand for more than"), "{error}");

    let nested = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let error = Mesh::parse("m", &nested).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than"), "{error}");
    let chain: String = (1..40)
        .map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1))
        .collect();
    let chain = format!("a0: &a0 []\n{chain}");
    let error = Mesh::parse("m", &chain).expect_err("too deep").to_string();
    assert!(error.contains("nested deeper than"), "{error}");
}

#[test]
fn many_endpoints_are_no_problem() {
    let mut text = "services:\n- name: web\n  port: 80\n  endpoints:\n".to_owned();
    for n in 0..20_000 {
        text += &format!("  - 10.0.{}.{}:80\n", n / 256, n % 256);
    }
    assert_eq!(mesh(&text).endpoints(), 20_000);
}

#[test]
fn a_file_that_is_none_does_not_list_all_that_is_wrong() {
    let text = format!("services:\n{}", "  - {bogus: 1}\n".repeat(500));
    let error = Mesh::parse("mesh.yaml", &text).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 101, "{error}");
    let last = lines.last().unwrap();
    assert!(
        last.starts_with("mesh.yaml: and ") && last.ends_with(" more problems"),
        "{last}"
    );
}
