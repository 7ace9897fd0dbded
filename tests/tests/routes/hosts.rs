//! Hosts of routes.

use crate::{Routed, named, outcome, route};
use linkerd_control::{Policy, Route, RouteMatch};

fn for_hosts(name: &str, hosts: &[&str]) -> Route {
    let route = route(name, [named(name, RouteMatch::any())]);
    hosts.iter().fold(route, |route, host| route.host(host))
}

#[tokio::test]
async fn the_most_specific_host_decides() {
    let policy = Policy::balance("web", 80)
        .route(for_hosts("any", &[]))
        .route(for_hosts("short", &["*.test"]))
        .route(for_hosts("long", &["*.shop.test"]))
        .route(for_hosts("exact", &["Cart.Shop.test.", "cart.org"]))
        .route(for_hosts("exact again", &["cart.shop.test"]));
    let routed = Routed::start(policy).await;
    for (host, expected) in [
        ("cart.shop.test", "exact"),
        ("CART.shop.TEST", "exact"),
        ("cart.shop.test.", "exact"),
        ("cart.shop.test:8080", "exact"),
        ("cart.org", "exact"),
        ("a.cart.shop.test", "long"),
        ("till.shop.test", "long"),
        ("Till.Shop.Test.", "long"),
        ("shop.test", "short"),
        ("ashop.test", "short"),
        ("test", "any"),
        ("other.org", "any"),
    ] {
        let uri = format!("http://{host}/");
        assert_eq!(outcome(&routed.get(&uri).await), expected, "{host}");
        let http2 = routed.mesh.http2().await.get(&uri).await.unwrap();
        assert_eq!(outcome(&http2), expected, "{host}, HTTP/2");
        let mut host_form = routed.mesh.http1().await.host_form();
        let host_form = host_form.get(&uri).await.unwrap();
        assert_eq!(outcome(&host_form), expected, "{host}, host form");
    }
}

#[tokio::test]
async fn a_more_specific_host_without_a_rule_for_the_request_gives_way() {
    let only = route("exact", [named("exact", RouteMatch::prefix("/only"))]);
    let policy = Policy::balance("web", 80)
        .route(only.host("cart.test"))
        .route(for_hosts("suffix", &["*.test"]));
    let routed = Routed::start(policy).await;
    for (uri, expected) in [
        ("http://cart.test/only/this", "exact"),
        ("http://cart.test/else/a/longer/path", "suffix"),
        ("http://cart.org/only", "404"),
    ] {
        assert_eq!(outcome(&routed.get(uri).await), expected, "{uri}");
    }
}
