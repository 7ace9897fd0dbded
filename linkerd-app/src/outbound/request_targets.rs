//! Stage 2 of requests that name their own targets: the router of each target.
//!
//! - **Waits for** the control plane's first answer about a target.
//! - **Fails as** discovery fails, `InvalidRequest` for a target that takes no requests, and as the target's router.
//! - **Bounds**: a connection keeps its last target in use; other targets are dropped when idle, as those of connections.

use super::{
    HttpRouter,
    context::Context,
    target::{TargetStack, Targets},
};
use futures::future::LocalBoxFuture;
use http::{Response, Version};
use linkerd_profiles::{ProtocolKind, Target};
use linkerd_proxy_core::{
    Error, Reason,
    http::{HttpRequest, ResponseBody},
};
use std::{cell::RefCell, rc::Rc};
use tokio::time::Instant;
use tower_service::Service;

/// The name of a target in a request.
pub trait TargetName: PartialEq + 'static {
    /// The target.
    fn target(&self) -> Result<Target, Error>;

    /// A copy that does not keep the buffer that the request was read into.
    fn detached(&self) -> Self;

    /// The error detail for a request to an opaque target.
    fn refuse_opaque() -> &'static str;
}

/// The routers of one connection's requests.
pub struct RequestTargets<N> {
    ctx: Rc<Context>,
    targets: Rc<Targets>,
    version: Version,
    /// The target of the last request: most connections use one only.
    last: RefCell<Option<LastTarget<N>>>,
}

struct LastTarget<N> {
    name: N,
    router: HttpRouter,
    _in_use: Rc<TargetStack>,
}

/// The response to a request.
type Answered = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

impl<N: TargetName> RequestTargets<N> {
    /// Routers for a client that speaks `version`.
    pub fn new(ctx: &Rc<Context>, targets: &Rc<Targets>, version: Version) -> Rc<Self> {
        Rc::new(Self {
            ctx: ctx.clone(),
            targets: targets.clone(),
            version,
            last: RefCell::default(),
        })
    }

    /// The version that the client speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Sends a request to the target that it names.
    pub fn call(self: &Rc<Self>, name: N, request: HttpRequest) -> Answered {
        match self.last(&name) {
            Some(mut router) => router.call(request),
            None => Box::pin(self.clone().discover(name, request)),
        }
    }

    /// The stack of a target.
    pub async fn stack(&self, name: &N) -> Result<Rc<TargetStack>, Error> {
        self.targets.get(&self.ctx, name.target()?).await
    }

    /// The router of the last request, if this one has the same target.
    fn last(&self, name: &N) -> Option<HttpRouter> {
        let last = self.last.borrow();
        let last = last.as_ref().filter(|last| last.name == *name)?;
        Some(last.router.clone())
    }

    /// Discovers the target of a request, and sends the request.
    async fn discover(
        self: Rc<Self>,
        name: N,
        mut request: HttpRequest,
    ) -> Result<Response<ResponseBody>, Error> {
        let stack = self.stack(&name).await?;
        match stack.discovered().protocol() {
            ProtocolKind::Opaque | ProtocolKind::Tls => {
                let detail = format!("{} is opaque: {}", stack.target(), N::refuse_opaque());
                return Err(Error::new(Reason::InvalidRequest).detail(detail));
            }
            ProtocolKind::Http1 | ProtocolKind::Http2 | ProtocolKind::Detect { .. } => {}
        }
        let mut router = stack.router(&self.ctx, self.version);
        *self.last.borrow_mut() = Some(LastTarget {
            name: name.detached(),
            router: router.clone(),
            _in_use: stack,
        });
        let (now, context) = (Instant::now(), request.context_mut());
        if let Some(notes) = &context.notes {
            notes.discovered(now, now.saturating_duration_since(context.arrived));
        }
        context.arrived = now;
        router.call(request).await
    }
}
