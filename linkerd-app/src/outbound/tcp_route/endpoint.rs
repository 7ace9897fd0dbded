//! Stage 7 of opaque connections: one endpoint.

use crate::outbound::{
    context::Context,
    lazy::{EndpointTarget, Lazy},
    stack_counts::{CountedStack, StackCounts},
};
use futures::{FutureExt, future::LocalBoxFuture};
use linkerd_balance::Member;
use linkerd_profiles::Endpoint;
use linkerd_proxy_core::{
    EndpointStatus, Error, NewService, Rejected,
    endpoint::Capacity,
    reason::Retry,
    reconnect::{Connects, Reconnect, reconnect},
    transport::{Connect, Io},
};
use std::{
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};
use tower_service::Service;

/// Makes a member of a balancer for each endpoint of a backend.
#[derive(Clone)]
pub struct NewTcpEndpoint(Rc<Backend>);

struct Backend {
    ctx: Rc<Context>,
    authority: Arc<str>,
    stacks: StackCounts,
}

/// An endpoint of opaque connections.
///
/// After the backoff of a failure, the next connection that a client needs is the attempt: a separate probe would show in the
/// log of a server that counts broken handshakes.
#[derive(Clone)]
pub struct TcpEndpoint {
    connect: Connect,
    attempts: Rc<Attempts>,
    _counted: Rc<CountedStack>,
}

struct Attempts(Reconnect);

impl NewTcpEndpoint {
    /// Endpoints of a backend. `authority` is the discovered name, for labels, and `protocol` that of their stacks.
    pub fn new(ctx: &Rc<Context>, authority: impl Into<Arc<str>>, protocol: &'static str) -> Self {
        Self(Rc::new(Backend {
            ctx: ctx.clone(),
            authority: authority.into(),
            stacks: StackCounts::new(&ctx.families.stack, protocol, "endpoint"),
        }))
    }
}

impl NewService<Arc<Endpoint>> for NewTcpEndpoint {
    type Service = Member<Lazy<Self>>;

    fn new_service(&self, endpoint: Arc<Endpoint>) -> Self::Service {
        let weight = endpoint.weight;
        let status = EndpointStatus::new(Capacity::OnDemand);
        let target = EndpointTarget {
            endpoint,
            status: status.clone(),
        };
        Member::new(Lazy::new(self.clone(), target), status, weight)
    }
}

impl NewService<EndpointTarget> for NewTcpEndpoint {
    type Service = TcpEndpoint;

    fn new_service(&self, target: EndpointTarget) -> TcpEndpoint {
        let Backend {
            ctx,
            authority,
            stacks,
        } = &*self.0;
        let backoff = ctx.config.outbound.connect.backoff;
        TcpEndpoint {
            connect: ctx.connect(&target.endpoint, Some(authority), None),
            attempts: Rc::new(Attempts(Reconnect::new(backoff, target.status))),
            _counted: Rc::new(stacks.count()),
        }
    }
}

/// Allows the next connection that a client needs as the attempt.
impl Connects for Attempts {
    fn reconnect(&self) -> &Reconnect {
        &self.0
    }

    async fn attempt(self: &Rc<Self>) -> Result<(), Error> {
        self.0.allow();
        Ok(())
    }
}

impl Service<()> for TcpEndpoint {
    type Response = Io;
    type Error = Rejected<()>;
    type Future = LocalBoxFuture<'static, Result<Io, Rejected<()>>>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Rejected<()>>> {
        let status = self.attempts.0.status();
        if !status.is_down() {
            return Poll::Ready(Ok(()));
        }
        status.register(cx);
        Poll::Pending
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (mut connect, attempts) = (self.connect.clone(), self.attempts.clone());
        async move {
            let error = match connect.call(()).await {
                Ok(io) => {
                    attempts.0.succeeded();
                    return Ok(io);
                }
                Err(error) => error,
            };
            if attempts.0.failed(&error) {
                reconnect(&attempts);
            }
            let again = error.reason().retry() == Retry::Yes;
            Err(Rejected::new(error, again.then_some(())))
        }
        .boxed_local()
    }
}
