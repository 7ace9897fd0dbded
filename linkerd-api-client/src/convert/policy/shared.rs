//! Equal parts of a policy are stored once: most policies name the same service as parent and as backend of each protocol.

use linkerd_profiles::{ClientPolicy, Distribution, Meta, Protocol, RouteTable};
use linkerd_proxy_core::yielding::with_yields;
use std::{collections::HashSet, sync::Arc};

/// Stores equal resources of a policy once.
pub(super) fn share_metas(policy: &mut ClientPolicy) {
    let mut known = Known::default();
    known.meta(&mut policy.parent);
    match &mut policy.protocol {
        Protocol::Detect {
            http1,
            http2,
            opaque,
            ..
        } => {
            match Arc::ptr_eq(http1, http2) {
                true => {
                    *http2 = Arc::default();
                    known.table(http1);
                    *http2 = http1.clone();
                }
                false => {
                    known.table(http1);
                    known.table(http2);
                }
            }
            if let Some(opaque) = opaque {
                known.route(&mut opaque.meta, &mut opaque.distribution);
            }
        }
        Protocol::Http1(table) | Protocol::Http2(table) | Protocol::Grpc(table) => {
            known.table(table);
        }
        Protocol::Opaque(route) => {
            if let Some(route) = route {
                known.route(&mut route.meta, &mut route.distribution);
            }
        }
        Protocol::Tls(table) => {
            let table = Arc::get_mut(table).expect(JUST_MADE);
            for (meta, distribution) in table.routes_mut() {
                known.route(meta, distribution);
            }
        }
    }
}

const JUST_MADE: &str = "a table that was just made is not shared";

/// The resources seen so far.
#[derive(Default)]
struct Known(HashSet<Arc<Meta>>);

impl Known {
    fn meta(&mut self, meta: &mut Arc<Meta>) {
        match self.0.get(meta) {
            Some(known) => *meta = known.clone(),
            None => {
                self.0.insert(meta.clone());
            }
        }
    }

    fn table(&mut self, table: &mut Arc<RouteTable>) {
        let table = Arc::get_mut(table).expect(JUST_MADE);
        for rule in with_yields(table.rules_mut()) {
            self.meta(&mut rule.meta);
            for used in rule.distribution.backends_mut() {
                self.meta(&mut used.backend.meta);
            }
        }
    }

    fn route(&mut self, meta: &mut Arc<Meta>, distribution: &mut Distribution) {
        self.meta(meta);
        for backend in distribution.backends_mut() {
            self.meta(&mut backend.meta);
        }
    }
}
