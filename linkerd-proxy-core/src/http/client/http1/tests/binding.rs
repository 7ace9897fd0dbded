//! Connections that are bound to a host and a client.

use super::{IDLE, Test, arriving, local};
use crate::http::{PoolSettings, client::Http1Pools};
use http::Request;
use http_body_util::{BodyExt, Empty};

impl Test {
    fn bound() -> Self {
        Self::beside(&Http1Pools::bound(PoolSettings {
            max_idle: 100,
            idle_timeout: IDLE,
        }))
    }

    /// Sends a request to a host, and returns the number of connections made so far.
    async fn ask(&mut self, host: Option<&str>) -> usize {
        let mut request = Request::get("/");
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(Empty::new().boxed_unsync()).unwrap();
        let response = tower_service::Service::call(&mut self.client, arriving(request)).await;
        response.unwrap().into_body().collect().await.unwrap();
        self.server.connections.get()
    }
}

#[tokio::test(start_paused = true)]
async fn each_host_has_connections_of_its_own() {
    local(async {
        let mut test = Test::bound();
        for (host, connections) in [("a", 1), ("a", 1), ("b", 2), ("a", 2), ("b", 2), ("A", 3)] {
            assert_eq!(test.ask(Some(host)).await, connections, "{host}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_host_has_a_connection_alone() {
    local(async {
        let mut test = Test::bound();
        for (host, connections) in [
            (None, 1),
            (None, 2),
            (Some("a"), 3),
            (Some(""), 4),
            (Some("a"), 4),
        ] {
            assert_eq!(test.ask(host).await, connections, "{host:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_hosts_cost_no_search_through_all_connections() {
    local(async {
        let mut test = Test::bound();
        test.ask(Some("first")).await;
        for n in 0..super::super::pool::MOST_LOOKED_AT {
            test.ask(Some(&format!("host-{n}"))).await;
        }
        let made = test.server.connections.get();
        assert_eq!(test.ask(Some("host-63")).await, made);
        assert_eq!(
            test.ask(Some("first")).await,
            made + 1,
            "it is not looked for"
        );
    })
    .await;
}
