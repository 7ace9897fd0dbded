//! Identities of SPIRE: SPIFFE IDs, certificates and trust bundles by its workload API.

use super::anchors::trusts;
use linkerd_control::{
    Authority, Authorization, Controller, Endpoint, EndpointSet, Policy, ServerPolicy,
};
use linkerd_tests::{
    Builder, Http1, Load, Proxy, SOON, Server, SpireAgent, eventually, soon, svid,
};
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tonic::Status;

fn id(name: &str) -> String {
    format!("spiffe://cluster.local/ns/default/sa/{name}")
}

fn server_name(name: &str) -> String {
    format!("{name}.default.mesh.test")
}

fn with_spire(control: SocketAddr, agent: &SpireAgent, name: &str) -> Builder {
    let socket = format!("unix://{}", agent.socket().display());
    Builder::new(control)
        .env("LINKERD2_PROXY_IDENTITY_SPIRE_WORKLOAD_API_ADDRESS", socket)
        .env("LINKERD2_PROXY_IDENTITY_SERVER_ID", id(name))
        .env("LINKERD2_PROXY_IDENTITY_SERVER_NAME", server_name(name))
        .env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0")
}

/// Two proxies with an agent each, and a control plane without identities.
struct SpireMesh {
    controller: Controller,
    control: linkerd_control::Server,
    agents: [SpireAgent; 2],
    web: Proxy,
    api: Proxy,
}

impl SpireMesh {
    async fn start(authority: &Authority, web: impl FnOnce(Builder) -> Builder) -> Self {
        let controller = Controller::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = controller.serve(listener).unwrap();
        let agents = [SpireAgent::start(), SpireAgent::start()];
        let proxy = |agent: &SpireAgent, name| {
            agent.issue(&id(name), &[authority]);
            with_spire(control.addr(), agent, name)
        };
        let (web, api) = (
            web(proxy(&agents[0], "web")).start(),
            proxy(&agents[1], "api").start(),
        );
        let (web, api) = tokio::join!(web, api);
        Self {
            controller,
            control,
            agents,
            web,
            api,
        }
    }

    /// Declares a service `api` whose endpoint is the server behind the proxy `api`.
    fn serve_api(&self, server: &Server) {
        let endpoint = Endpoint::new(server.addr())
            .identity(id("api"))
            .server_name(server_name("api"))
            .inbound_port(self.api.inbound.port());
        let policy = Policy::balance("api", 80);
        self.controller.policy("api:80").set(policy);
        let name = "api.default.svc.cluster.local:80";
        let endpoints = EndpointSet::new([endpoint]);
        self.controller.destination(name).set(endpoints);
    }

    /// Issues new identities to both proxies, with a bundle of these authorities. The first one signs.
    fn issue(&self, authorities: &[&Authority]) {
        for (agent, name) in self.agents.iter().zip(["web", "api"]) {
            agent.issue(&id(name), authorities);
        }
    }

    async fn status(&self) -> u16 {
        let mut client = Http1::connect(self.web.outbound).await;
        let reply = client.get("http://api/").await.unwrap();
        reply.status.as_u16()
    }
}

#[tokio::test]
async fn spiffe_ids_are_identities_everywhere() {
    let server = Server::says("hello").await;
    let authority = Authority::generate("root").unwrap();
    let mesh = SpireMesh::start(&authority, |web| web).await;
    mesh.serve_api(&server);
    assert_eq!(mesh.status().await, 200);
    assert_eq!(server.seen()[0].headers["l5d-client-id"], id("web"));

    let sent = mesh.web.metrics().await;
    let server_id = [("direction", "outbound"), ("server_id", &*id("api"))];
    assert!(sent.sum("request_total", &server_id) >= 1.0);
    let client_id = [("direction", "inbound"), ("client_id", &*id("web"))];
    assert!(mesh.api.metrics().await.sum("request_total", &client_id) >= 1.0);
    let state = mesh.web.admin.state().await["identity"].clone();
    assert_eq!(state["identity"], id("web"));
    assert_eq!(state["server_name"], server_name("web"));
    assert_eq!(state["trust_anchors"]["number"], 1);
    let socket = mesh.agents[0].socket();
    assert_eq!(
        state["issuer"],
        format!("workload API {}", socket.display())
    );
    mesh.web
        .wait_for_log(&format!("Local identity is {}", id("web")))
        .await;
    mesh.web.wait_for_log("SNI is web.default.mesh.test").await;

    let port = mesh.controller.server(server.addr().port());
    for (client, status) in [("guest", 403), ("web", 200)] {
        let only = Authorization::all(client).identity(&id(client));
        port.set(ServerPolicy::new("api").authorize(only).build());
        soon(async { while mesh.status().await != status {} }).await;
    }
    let line = mesh.api.wait_for_log("Request denied").await;
    assert!(line.contains(&id("web")), "{line}");
    let key = "BEGIN PRIVATE KEY";
    assert!(!mesh.web.log().contains(key));
}

#[tokio::test]
async fn no_request_fails_while_the_authority_is_replaced() {
    let server = Server::says("hello").await;
    let (old, new) = (
        Authority::generate("old").unwrap(),
        Authority::generate("new").unwrap(),
    );
    let connects = |web: Builder| web.env("LINKERD2_PROXY_OUTBOUND_MAX_IDLE_CONNS_PER_ENDPOINT", 0);
    let mut mesh = SpireMesh::start(&old, connects).await;
    mesh.serve_api(&server);
    let load = Load::through(&mesh.web, 3, Duration::from_millis(2), "http://api/");
    load.more(30).await;
    for (authorities, number) in [(&[&old, &new][..], 2), (&[&new, &old], 2), (&[&new], 1)] {
        let issued = async |proxy: &Proxy| proxy.admin.state().await["identity"]["issued"].clone();
        let before = [issued(&mesh.web).await, issued(&mesh.api).await];
        mesh.issue(authorities);
        for (proxy, before) in [&mesh.web, &mesh.api].into_iter().zip(before) {
            eventually(SOON, "the next SVID", || async {
                (issued(proxy).await != before).then_some(())
            })
            .await;
            trusts(proxy, number).await;
        }
        load.more(30).await;
    }
    // Without its agent the proxy keeps its identity; it asks the agent again after the restart.
    mesh.agents[0].stop().await;
    mesh.web.wait_for_log("cannot be connected to").await;
    load.more(30).await;
    mesh.agents[0].restart();
    eventually(SOON, "the agent has answered again", || async {
        let state = mesh.web.admin.state().await;
        state["identity"]["last_error"].is_null().then_some(())
    })
    .await;
    load.more(30).await;
    load.stop().await.assert_clean();
    assert_eq!(mesh.control.addr().ip().to_string(), "127.0.0.1");
}

#[tokio::test]
async fn an_agent_without_an_answer_is_explained_until_it_has_one() {
    let authority = Authority::generate("root").unwrap();
    let controller = Controller::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let control = controller.serve(listener).unwrap();
    let agent = SpireAgent::start();
    let proxy = with_spire(control.addr(), &agent, "web");
    let proxy = proxy.start_unready().await;
    let not_ready = async |text: &str| {
        let socket = agent.socket().display().to_string();
        eventually(SOON, text, || async {
            let reply = proxy.admin.get("/ready").await;
            let told = reply.text().contains(text) && reply.text().contains(&socket);
            (reply.status == 503 && told).then_some(())
        })
        .await;
    };
    not_ready("register an entry").await;
    let good = svid(&id("web"), &[&authority]);
    let mut other = good.clone();
    other.spiffe_id = id("other");
    agent.answer(vec![other.clone()]);
    not_ready("register this workload with that SPIFFE ID").await;
    let mut keyless = good.clone();
    keyless.x509_svid_key = b"junk".to_vec();
    agent.answer(vec![keyless]);
    not_ready("x509_svid_key").await;
    agent.fail(Status::unavailable("the server is away"));
    not_ready("the server is away").await;

    agent.answer(vec![other, good]);
    eventually(SOON, "the proxy is ready", || async {
        (proxy.admin.get("/ready").await.status == 200).then_some(())
    })
    .await;
    let error = [("result", "error")];
    let family = "control_identity_cert_refreshes_total";
    assert!(proxy.metrics().await.sum(family, &error) >= 4.0);
}

#[tokio::test]
async fn variables_that_do_not_fit_are_refused_with_their_fix() {
    let agent = SpireAgent::start();
    let proxy = || with_spire(([127, 0, 0, 1], 1).into(), &agent, "web");
    let dns = proxy().env("LINKERD2_PROXY_IDENTITY_SERVER_ID", "web.test");
    let exit = dns.run().await;
    assert_eq!(exit.status.code(), Some(64));
    let problem = "Spire support requires a SPIFFE TLS Id";
    assert!(exit.output.contains(problem), "{}", exit.output);
    let tcp = "LINKERD2_PROXY_IDENTITY_SPIRE_WORKLOAD_API_ADDRESS";
    let exit = proxy().env(tcp, "tcp://127.0.0.1:8000").run().await;
    assert_eq!(exit.status.code(), Some(64));
    assert!(exit.output.contains("unix:///"), "{}", exit.output);
}
