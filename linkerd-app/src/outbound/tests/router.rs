//! The router over routes of the test.

use super::{TestProxy, forward, in_process, policy};
use crate::outbound::router::{Refusal, RouteService, Router, Routes};
use linkerd_profiles::{ClientPolicy, Discovered, Meta, RouteSource, Target};
use linkerd_proxy_core::{Error, Reason, Shared};
use serde_json::Value;
use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};
use tower_service::Service;

const WEB: &str = "10.1.0.1:80";

/// Routes that answer after a second with the name of their policy. A policy named `refuses` is refused.
#[derive(Clone, Default)]
struct Named {
    made: Rc<Cell<u32>>,
    replaced: Rc<Cell<u32>>,
}

impl Routes for Named {
    type Request = ();
    type Response = String;
    type Snapshot = RouteService<Self>;

    fn snapshot(self: &Rc<Self>, discovered: &Discovered) -> Result<RouteService<Self>, Refusal> {
        self.made.set(self.made.get() + 1);
        let name = discovered.policy.parent.name().to_owned();
        if name == "refuses" {
            return Err(Refusal::new(Reason::Forbidden));
        }
        Ok(Shared::new(tower::service_fn(move |()| {
            let name = name.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(name)
            }
        })))
    }

    fn replaced(&self, _: Option<&RouteService<Self>>) {
        self.replaced.set(self.replaced.get() + 1);
    }

    fn inspect(&self, _: Option<&RouteService<Self>>) -> Value {
        self.made.get().into()
    }
}

fn named(name: &str) -> ClientPolicy {
    ClientPolicy {
        parent: Arc::new(Meta::new_default(name)),
        ..policy(forward("10.0.0.1:80"))
    }
}

async fn router(proxy: &TestProxy, routes: &Named) -> Router<Named> {
    let target: Target = WEB.parse().unwrap();
    let mut watch = proxy.ctx.policies.discover(target).unwrap();
    let discovered = watch.ready().await.unwrap();
    Router::new(&watch, &discovered, routes.clone())
}

#[tokio::test(start_paused = true)]
async fn an_update_applies_to_the_next_request_and_not_to_one_in_flight() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, named("first"));
        let routes = Named::default();
        let mut router = router(&proxy, &routes).await;
        let in_flight = router.call(());
        proxy.source.set_policy(WEB, named("second"));
        proxy.settle().await;
        assert_eq!(routes.made.get(), 1, "no request has asked for it");
        let mut copy = router.clone();
        assert_eq!(copy.call(()).await.unwrap(), "second");
        assert_eq!(router.call(()).await.unwrap(), "second");
        assert_eq!(in_flight.await.unwrap(), "first");
        assert_eq!((routes.made.get(), routes.replaced.get()), (2, 1));
        assert_eq!(router.inspect(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_stands_until_the_next_update() {
    in_process(async |proxy| {
        proxy.source.set_policy(WEB, named("refuses"));
        let mut router = router(&proxy, &Named::default()).await;
        for _ in 0..2 {
            let error = router.call(()).await.unwrap_err();
            assert_eq!(error.reason(), Reason::Forbidden);
        }
        proxy.source.set_policy(WEB, named("passes"));
        proxy.settle().await;
        assert_eq!(router.call(()).await.unwrap(), "passes");
    })
    .await;
}

#[test]
fn each_refusal_has_its_reason() {
    let meta = Arc::new(Meta::new_default("test"));
    let (parent, reason) = (meta.clone(), "a reason".to_owned());
    for (source, reason, detail) in [
        (
            RouteSource::Invalid { parent, reason },
            Reason::InvalidPolicy,
            None,
        ),
        (
            RouteSource::NoRoute {
                parent: meta.clone(),
            },
            Reason::NoRoute,
            Some("logical service web:80: parent default.test: no route".to_owned()),
        ),
    ] {
        assert_eq!(Refusal::of(source, "web:80"), Refusal { reason, detail });
    }
}
