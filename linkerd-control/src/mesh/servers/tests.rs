use crate::mesh::Mesh;
use crate::mesh::testing::{mesh, refused};
use crate::policy::{HeaderChanges, Route, RouteFilter, RouteMatch, RouteRule};
use crate::server_policy::{Authorization, InboundRoute, RateLimit, ServerPolicy};
use ipnet::IpNet;
use linkerd_api_proto::inbound::Server;

fn server(text: &str) -> Server {
    let mesh = mesh(&format!("services: []\nservers:\n- {text}\n"));
    mesh.servers().next().expect("a server").1
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

#[test]
fn a_server_with_everything() {
    let read = server(
        "
  name: web
  port: 8080
  protocol: http1
  accessPolicy: audit
  authorizations:
    - name: shop
      networks: [10.0.0.0/8, 192.0.2.1]
      identities: [Web.Shop.test, '*.admin.test', 'spiffe://Test/web']
  routes:
    - name: admin
      hostnames: ['*.test']
      rules:
        - matches: [{path: {value: /admin}}]
          filters:
            - type: RequestHeaderModifier
              requestHeaderModifier: {set: [{name: a, value: '1'}]}
      authorizations:
        - {networks: [{cidr: 10.0.0.0/8, except: [10.9.0.0/16]}], meshTLS: true}
  rateLimit:
    total: {requestsPerSecond: 100}
    identity: {requestsPerSecond: 10}
    overrides: [{requestsPerSecond: 20, identities: [web.shop.test]}]
",
    );
    let rule =
        RouteRule::new()
            .when(RouteMatch::prefix("/admin"))
            .filter(RouteFilter::request_headers(
                HeaderChanges::new().set("a", "1"),
            ));
    let admin = Authorization::of_networks("authorization-1", [net("10.0.0.0/8")])
        .except(net("10.9.0.0/16"))
        .mesh_tls();
    let shop = Authorization::of_networks("shop", [net("10.0.0.0/8"), net("192.0.2.1/32")])
        .identity("web.shop.test")
        .identities_below("admin.test")
        .identity("spiffe://Test/web");
    let limit = RateLimit::new("rate-limit")
        .total(100)
        .per_identity(10)
        .of_identities(20, ["web.shop.test"]);
    let route = Route::new("admin").host("*.test").rule(rule);
    let expected = ServerPolicy::new("web")
        .http1()
        .authorize(shop)
        .authorize(Authorization::default_of("audit"))
        .route(InboundRoute::new(route).authorize(admin))
        .rate_limit(limit)
        .build();
    assert_eq!(read, expected);
}

#[test]
fn a_server_denies_all_until_it_is_told_whom_to_let_in() {
    assert_eq!(server("port: 80"), ServerPolicy::new("port-80").build());
    let everybody = Authorization::default_of("all-authenticated").identities_below("");
    let expected = ServerPolicy::new("port-80").opaque().authorize(everybody);
    let read = server("{port: 80, protocol: opaque, accessPolicy: all-authenticated}");
    assert_eq!(read, expected.build());
}

#[test]
fn a_server_may_be_that_of_several_ports() {
    let mesh = mesh("services: []\nservers: [{ports: [1, 2]}, {name: web, ports: [3, 4]}]\n");
    let servers: Vec<_> = mesh.servers().collect();
    let denied = |name: &str| ServerPolicy::new(name).build();
    let expected = [
        (1, denied("port-1")),
        (2, denied("port-2")),
        (3, denied("web")),
        (4, denied("web")),
    ];
    assert_eq!(servers, expected);
}

#[test]
fn a_port_whose_server_left_the_file_is_open() {
    let controller = crate::Controller::new();
    let state = |text: &str| -> Option<Server> {
        let mesh: Mesh = mesh(text);
        controller.apply(&mesh);
        let tables = controller.state.tables.lock();
        let key = crate::target::TargetKey::One(":80".to_owned());
        tables
            .servers
            .content(&key)
            .map(|server| Server::clone(server))
    };
    let denied = state("{services: [], servers: [{port: 80}]}");
    assert_eq!(denied, Some(ServerPolicy::new("port-80").build()));
    let open = ServerPolicy::all_unauthenticated().build();
    for _ in 0..2 {
        assert_eq!(state("services: []"), Some(open.clone()));
    }
}

#[test]
fn ports_without_a_server_have_the_default_policy_of_the_file() {
    let controller = crate::Controller::new();
    let policy = |port: u16| {
        let mut tables = controller.state.tables.lock();
        let target = format!(":{port}");
        let stream = tables.servers.open(&target).unwrap();
        tables.servers.close(&target, &stream);
        match stream.next() {
            crate::stream::Next::State(server) => Some(Server::clone(&server)),
            _ => None,
        }
    };
    let file = |text: &str| controller.apply(&mesh(text));
    let denied = ServerPolicy::default_of("deny").build();
    let open = ServerPolicy::all_unauthenticated().build();
    file("{services: [], defaultAccessPolicy: deny, servers: [{port: 80}]}");
    assert_eq!(policy(80), Some(ServerPolicy::new("port-80").build()));
    assert_eq!(policy(81), Some(denied.clone()));
    file("{services: [], defaultAccessPolicy: deny}");
    assert_eq!(policy(80), Some(denied));
    file("{services: [], defaultAccessPolicy: all-unauthenticated}");
    assert_eq!(policy(80), Some(open));
    file("services: []");
    assert_eq!(policy(81), None, "the proxy has its own");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (server, problem) in [
        ("{name: web}", "3:3: the server has no `port`"),
        ("{port: 0}", "3:10: 0 is not between 1 and 65535"),
        (
            "{ports: [1], port: 2}",
            "3:11: `port` and `ports` are given; remove one of them",
        ),
        (
            "{ports: []}",
            "3:11: the server has no ports; add at least one",
        ),
        (
            "{ports: [80, 80]}",
            "3:3: port 80 has a server already, in line 3; remove one",
        ),
        (
            "{port: 80, protocol: http}",
            "3:24: `http` is no protocol; use ",
        ),
        (
            "{port: 80, accessPolicy: x}",
            "3:28: `x` is no accessPolicy; use deny, audit",
        ),
        (
            "{port: 80, authorizations: [{networks: [10.0.0]}]}",
            "3:43: `10.0.0` is not a network",
        ),
        (
            "{port: 80, authorizations: [{networks: []}]}",
            "3:42: without networks it admits nobody",
        ),
        (
            "{port: 80, authorizations: [{identities: ['*x']}]}",
            "3:45: `*x` is not an identity",
        ),
        (
            "{port: 80, authorizations: [{identities: []}]}",
            "3:44: without identities it admits nobody",
        ),
        (
            "{port: 80, protocol: opaque, routes: [{rules: [{}]}]}",
            "3:40: opaque connections have no `routes`",
        ),
        ("{port: 80, routes: [{}]}", "3:23: the route has no `rules`"),
        (
            "{port: 80, rateLimit: {total: {}}}",
            "3:33: the limit has no `requestsPerSecond`",
        ),
        (
            "{port: 80, protocol: grpc, rateLimit: {}}",
            "3:41: only `protocol: detect`",
        ),
        (
            "{port: 80, rateLimit: {overrides: [{requestsPerSecond: 1}]}}",
            "3:38: the override has no `identities`",
        ),
        ("{prot: 80}", "3:4: "),
    ] {
        refused(&format!("services: []\nservers:\n- {server}\n"), problem);
    }
    let twice = "services: []\nservers:\n- {port: 80}\n- {port: 80}\n";
    refused(twice, "4:3: port 80 has a server already, in line 3");
    let responses = "{port: 80, routes: [{rules: [{filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}]}]}]}";
    refused(
        &format!("services: []\nservers:\n- {responses}\n"),
        "3:32: inbound routes have no ResponseHeaderModifier",
    );
}
