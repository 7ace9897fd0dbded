//! Stage 4: the choice among the rules of one policy for each request.

use super::{
    backends::BackendKey,
    host_routes::HostRoutes,
    retry_budgets::BackendSet,
    router::{RouteService, Routes, no_route},
};
use crate::explain::rule_settings;
use futures::future::LocalBoxFuture;
use http::Response;
use linkerd_profiles::{HttpRouting, RouteRule, request_host};
use linkerd_proxy_core::{
    Error,
    http::{HttpRequest, ResponseBody},
};
use serde_json::{Value, json};
use std::{
    rc::Rc,
    task::{Context, Poll},
};
use tower_service::Service;

/// Sends each request to the rule that matches it. The stack of a rule is built for its first request: a policy may have
/// thousands of rules.
///
/// - **Waits for** nothing.
/// - **Fails as** `NoRoute`, and as the rule fails.
pub struct RouteChoice<M: MakeRule> {
    routing: HttpRouting,
    make: Rc<M>,
    /// By the index of the rule.
    rules: Box<[Option<RouteService<M>>]>,
    /// In place of `rules`, if metrics have hostname labels.
    of_hosts: HostRoutes<RouteService<M>>,
}

/// Makes the stacks of rules.
pub trait MakeRule: Routes<Request = HttpRequest, Response = Response<ResponseBody>> {
    /// The stack of a rule. `hostname` is the label of its metrics, or empty.
    fn make(&self, routing: &HttpRouting, rule: &RouteRule, hostname: &str) -> RouteService<Self>;

    /// The name of the target, for errors.
    fn target(&self) -> &str;

    /// Whether metrics have hostname labels.
    fn hostname_labels(&self) -> bool {
        false
    }
}

impl<M: MakeRule> RouteChoice<M> {
    /// The rules of a policy.
    pub fn new(routing: HttpRouting, make: Rc<M>) -> Self {
        let rules = routing.table.rules().iter().map(|_| None).collect();
        Self {
            routing,
            make,
            rules,
            of_hosts: HostRoutes::default(),
        }
    }

    /// Whether a rule names the backend, even if its stack is not built.
    pub fn names(&self, key: &BackendKey) -> bool {
        let mut rules = self.routing.table.rules().iter();
        self.routing.parent == key.parent
            && rules.any(|rule| {
                let mut backends = rule.distribution.backends();
                backends.any(|used| used.backend == key.backend)
            })
    }

    /// Whether a rule names these backends and no others.
    pub fn distributes_to(&self, backends: &BackendSet) -> bool {
        let mut rules = self.routing.table.rules().iter();
        rules.any(|rule| backends.is_of(&rule.distribution))
    }

    /// The first rules, in their order, for `/state`.
    pub fn inspect(&self) -> Value {
        let rules = self.routing.table.rules().iter().zip(&self.rules);
        let shown = rules.take(MAX_SHOWN).enumerate();
        let shown = shown.map(|(index, (rule, made))| {
            let mut shown = rule_settings(rule);
            shown["in_use"] = (made.is_some() || self.of_hosts.has(index)).into();
            shown
        });
        json!({
            "parent": self.routing.parent.to_string(),
            "rules": self.rules.len(),
            "first": shown.collect::<Vec<_>>(),
        })
    }

    /// The stack of the rule that matches the request.
    fn find(&mut self, request: &mut HttpRequest) -> Option<&mut RouteService<M>> {
        let found = self.routing.table.find(request)?;
        request.context_mut().matched_prefix = found.prefix;
        if self.make.hostname_labels() {
            let host = request_host(&**request).unwrap_or_default();
            let rule = &self.routing.table.rules()[found.index];
            let make = |host: &str| self.make.make(&self.routing, rule, host);
            return Some(self.of_hosts.get(found.index, host, make));
        }
        let made = &mut self.rules[found.index];
        if made.is_none() {
            let rule = &self.routing.table.rules()[found.index];
            *made = Some(self.make.make(&self.routing, rule, ""));
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
            None => Box::pin(std::future::ready(Err(no_route(
                self.routing.logical.as_ref(),
                self.make.target(),
                &self.routing.parent,
            )))),
        }
    }
}

/// The rules that `/state` shows.
const MAX_SHOWN: usize = 50;
