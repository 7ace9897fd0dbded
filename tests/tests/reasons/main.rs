//! Every reason for which the proxy answers, closes or resets, provoked from outside.
//!
//! Each test has the name of its reason. It looks for the reason in the response headers, the counter, the log, the last
//! failures of `/state`, and docs/reasons.md.

#![allow(clippy::unwrap_used, missing_docs)]

mod availability;
mod clients;
mod endpoints;
mod meshes;
mod routes;
mod seen;

use linkerd_tests::{Mesh, MeshBuilder, Wire};
use std::{collections::BTreeSet, net::SocketAddr};

/// Declares a test for each reason. Its scenario gets the name of the reason, and proves that the reason was seen.
macro_rules! provoke {
    ($($(#[$attribute:meta])* $reason:ident => $scenario:expr;)*) => {
        $(
            $(#[$attribute])*
            #[tokio::test]
            async fn $reason() {
                let scenario = $scenario;
                let _: crate::seen::Seen = scenario(stringify!($reason)).await;
            }
        )*

        pub const REASONS: &[&str] = &[$(stringify!($reason)),*];
    };
}
pub(crate) use provoke;

/// Reasons without a test here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("redirected", "the answer of a route, and no failure"),
    (
        "discovery_timeout",
        "it takes 30 s: the outbound tests pause time",
    ),
    (
        "listener_removed",
        "it takes a listener that is discovered: the outbound tests",
    ),
    (
        "shutdown_deadline",
        "the process has ended: tests/access_log.rs",
    ),
    ("http_required", "it takes redirection: tests/leniency/"),
    ("hidden_request", "it takes redirection: tests/leniency/"),
    ("unexpected", "it is a defect"),
];

#[test]
fn every_reason_of_the_document_is_provoked_or_listed() {
    let mut provoked = BTreeSet::new();
    let groups = [
        availability::REASONS,
        clients::REASONS,
        endpoints::REASONS,
        meshes::REASONS,
        routes::REASONS,
    ];
    for reason in groups.concat() {
        let label = seen::label(reason);
        assert!(provoked.insert(label), "{label} is provoked twice");
    }
    for (reason, _) in ELSEWHERE {
        assert!(provoked.insert(reason), "{reason} is provoked");
    }
    let documented = BTreeSet::from_iter(seen::documented());
    assert_eq!(provoked, documented);
}

/// Opens more connections than a worker lets begin and not go on, each with these first bytes. The first is the oldest.
async fn crowd(proxy: SocketAddr, first: &[u8]) -> Vec<Wire> {
    let mut wires = Vec::new();
    for _ in 0..=MOST_BEGUN {
        let mut wire = Wire::connect(proxy).await;
        wire.send(first).await;
        wires.push(wire);
    }
    wires
}

/// The most half-sent requests of a worker, and the most handshakes that have begun.
const MOST_BEGUN: usize = 1024;

/// A mesh whose proxy logs failures, and has a short failfast timeout.
fn impatient() -> MeshBuilder {
    Mesh::builder()
        .env("LINKERD2_PROXY_LOG", "warn,linkerd=debug")
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
}
