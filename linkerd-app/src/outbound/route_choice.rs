//! Stage 4: the rules of one policy, and which of them a request meets.

use super::{
    backends::BackendKey,
    router::{RouteService, Routes},
};
use futures::future::LocalBoxFuture;
use http::Response;
use linkerd_profiles::{HttpRouting, RouteRule};
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody},
};
use serde_json::{Value, json};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Sends each request to the rule that it meets. The stack of a rule is made when the first request asks for it: a policy may
/// have thousands.
///
/// - **Waits for** nothing.
/// - **Fails as** `NoRoute`, and as the rule fails.
pub struct RouteChoice<M: MakeRule> {
    routing: HttpRouting,
    make: Rc<M>,
    /// By the index of the rule.
    rules: Box<[Option<RouteService<M>>]>,
}

/// Makes the stacks of rules.
pub trait MakeRule: Routes<Request = HttpRequest, Response = Response<ResponseBody>> {
    /// The stack of a rule.
    fn make(&self, routing: &HttpRouting, rule: &RouteRule) -> RouteService<Self>;
}

impl<M: MakeRule> RouteChoice<M> {
    /// The rules of a policy.
    pub fn new(routing: HttpRouting, make: Rc<M>) -> Self {
        let rules = routing.table.rules().iter().map(|_| None).collect();
        Self {
            routing,
            make,
            rules,
        }
    }

    /// Whether a rule names the backend, be its stack made or not.
    pub fn names(&self, key: &BackendKey) -> bool {
        let mut rules = self.routing.table.rules().iter();
        self.routing.parent == key.parent
            && rules.any(|rule| {
                let mut backends = rule.distribution.backends();
                backends.any(|used| used.backend == key.backend)
            })
    }

    /// The first rules, in their order, for `/state`.
    pub fn inspect(&self) -> Value {
        let rules = self.routing.table.rules().iter().zip(&self.rules);
        let shown = rules.take(MAX_SHOWN).map(|(rule, made)| {
            json!({
                "route": rule.meta.to_string(),
                "hosts": rule.hosts.iter().map(|host| format!("{host:?}")).collect::<Vec<_>>(),
                "matches": rule.matches.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>(),
                "filters": rule.filters.len(),
                "in_use": made.is_some(),
            })
        });
        json!({
            "parent": self.routing.parent.to_string(),
            "rules": self.rules.len(),
            "first": shown.collect::<Vec<_>>(),
        })
    }

    /// The stack of the rule that is for the request.
    fn find(&mut self, request: &mut HttpRequest) -> Option<&mut RouteService<M>> {
        let found = self.routing.table.find(request)?;
        request.context_mut().matched_prefix = found.prefix;
        let made = &mut self.rules[found.index];
        if made.is_none() {
            let rule = &self.routing.table.rules()[found.index];
            *made = Some(self.make.make(&self.routing, rule));
        }
        made.as_mut()
    }
}

impl<M: MakeRule> Service<HttpRequest> for RouteChoice<M> {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        match self.find(&mut request) {
            Some(rule) => rule.call(request),
            None => Box::pin(std::future::ready(Err(Reason::NoRoute.into()))),
        }
    }
}

/// The rules that `/state` shows.
const MAX_SHOWN: usize = 50;
