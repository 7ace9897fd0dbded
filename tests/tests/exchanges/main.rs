//! Random exchanges through the proxy: no response, byte or replay may be misplaced.
//!
//! A seed determines the clients' requests and aborts and the endpoints' responses ([`plan`]). Every request and every
//! response carries its id in its head, in each 32 bytes of its body and in its trailers ([`body`]). Clients and
//! endpoints record their views ([`client`], [`endpoint`], [`ledger`]), and the [`oracle`] decides whether they are
//! valid together.
//!
//! `LINKERD_TESTS_EXCHANGE_SECONDS=3600` runs for an hour, `LINKERD_TESTS_SEED=n` repeats the plans of a run,
//! `LINKERD_TESTS_EXCHANGE_CASE=n` repeats one of them again and again, and `LINKERD_TESTS_EXCHANGE_FIRST=n` starts at one.
//! Timing is not repeated.

#![allow(clippy::unwrap_used, missing_docs)]

mod body;
mod client;
mod cuts;
mod endpoint;
mod ledger;
mod oracle;
mod plan;
mod run;
mod wire;

use client::Way;
use endpoint::Endpoint;
use ledger::Ledger;
use linkerd_control::EndpointSet;
use linkerd_tests::{
    Mesh,
    netns::{PEER, POD, Pod, isolated},
};
use plan::Service;
use run::{Options, Usage};
use std::{net::Ipv4Addr, sync::Arc};

#[tokio::test]
async fn outbound_exchanges_reach_whom_they_are_for() {
    let options = Options::read(12, true);
    let ledger = Arc::new(Ledger::default());
    let free = (Ipv4Addr::LOCALHOST, 0).into();
    let start = |index: usize, restless: bool| {
        Endpoint::start(&ledger, index, free, restless.then_some(options.seed))
    };
    let mesh = Mesh::builder().env(HEADER_TIMEOUT, LATE).start().await;
    let web = [start(0, false), start(1, true), start(2, true)];
    let lone = [start(3, true)];
    let quiet = [start(4, false)];
    let carried = [start(5, false), start(6, true)];
    mesh.service(Service::Carried.name(), [])
        .set(EndpointSet::new(carried.iter().map(|endpoint| {
            linkerd_control::Endpoint::new(endpoint.addr).h2()
        })));
    for (service, endpoints) in [
        (Service::Web, &web[..]),
        (Service::Lone, &lone[..]),
        (Service::Quiet, &quiet[..]),
    ] {
        mesh.service(
            service.name(),
            endpoints.iter().map(|endpoint| endpoint.addr),
        );
    }
    let before = Usage::of(&mesh.proxy);
    let way = Way {
        addrs: [mesh.proxy.outbound; 4],
        source: Ipv4Addr::LOCALHOST.into(),
        explicit: true,
        admin: mesh.proxy.admin,
    };
    options.run(&ledger, way).await;
    before.check_after(mesh.proxy).await;
}

#[test]
fn inbound_exchanges_reach_whom_they_are_for() {
    isolated("inbound_exchanges_reach_whom_they_are_for", async {
        let options = Options::read(10, false);
        let ledger = Arc::new(Ledger::default());
        let start = |index: usize, restless: bool| {
            let seed = restless.then_some(options.seed);
            Endpoint::start(&ledger, index, (POD, 0).into(), seed)
        };
        let pod = Pod::start(|proxy| proxy.env(HEADER_TIMEOUT, LATE)).await;
        // A segment that connection tracking considers invalid is not redirected, and the kernel answers it with an
        // RST, although neither the client nor the proxy has closed.
        std::fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal", "1").unwrap();
        let [web, lone, quiet] = [start(0, false), start(1, true), start(2, false)];
        let before = Usage::of(&pod.proxy);
        let way = Way {
            addrs: [web.addr, lone.addr, quiet.addr, web.addr],
            // Not the proxy's address: a connection from a port that the proxy has just used would be mistaken for the proxy's own,
            // and not be redirected.
            source: PEER,
            explicit: false,
            admin: pod.proxy.admin,
        };
        options.run(&ledger, way).await;
        before.check_after(pod.proxy).await;
    });
}

const HEADER_TIMEOUT: &str = "LINKERD_PROXY_HTTP_HEADER_TIMEOUT";

/// A limit that no client without a stall exceeds.
const LATE: &str = "4s";
