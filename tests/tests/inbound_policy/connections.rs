//! Connections that are not HTTP.

use crate::{elsewhere, open};
use linkerd_control::ServerPolicy;
use linkerd_tests::{
    SOON, Tcp, Wire, echo, eventually,
    netns::{POD, Pod, isolated},
};
use std::net::SocketAddr;

#[test]
fn an_opaque_port_is_denied_before_a_byte_and_terminated_by_a_change() {
    isolated(
        "connections::an_opaque_port_is_denied_before_a_byte_and_terminated_by_a_change",
        async {
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), echo).await;
            let port = application.addr().port();
            let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_PORTS", port)).await;
            let server = pod.controller.server(port);
            let allow = "inbound_tcp_authz_allow_total";
            // A connection that began before the policy came was looked at.
            let labels = [("srv_name", "db"), ("no_tls_reason", "port_skipped")];
            server.set(open("db").opaque());
            let mut wire = eventually(SOON, "the policy", || async {
                let mut wire = Wire::connect(application.addr()).await;
                wire.send("\0query").await;
                assert_eq!(wire.until(b"\0query").await, "\0query");
                let metrics = pod.proxy.metrics().await;
                (metrics.sum(allow, &labels) >= 1.0).then_some(wire)
            })
            .await;
            let seen = application.connections();
            server.set(ServerPolicy::new("db").opaque().authorize(elsewhere()));
            assert_eq!(wire.rest().await, "");
            let terminated = "inbound_tcp_authz_terminate_total";
            pod.proxy.metric_reaches(terminated, &labels, 1.0).await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("\0query").await;
            assert_eq!(wire.rest().await, "");
            assert_eq!(application.connections(), seen);
            let denied = "inbound_tcp_authz_deny_total";
            pod.proxy.metric_reaches(denied, &labels, 1.0).await;
            pod.proxy.wait_for_log("Connection denied").await;
        },
    );
}
